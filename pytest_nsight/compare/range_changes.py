"""The ranges of two traces side by side, with an interval where both repeat them. Pure."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace

import numpy as np

from pytest_nsight.analysis.range_mix import FEWEST_REPETITIONS, find_outermost
from pytest_nsight.compare.changes import Change, Group, Quantity
from pytest_nsight.compare.labelled_ranges import LabelledRanges, label_ranges
from pytest_nsight.judge.contrast import upper_quantile
from pytest_nsight.judge.round_statistics import Floats
from pytest_nsight.model.trace import Ints, Trace
from pytest_nsight.trace.attribution import attribute
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.lost_kernels import flag_without_kernel

_MOST_BLOCKS = 20
"""Schmeiser (1982) finds that 10 to 30 batches do, whatever the number of observations."""
_FEWEST_EFFECTIVE = 2.0
"""Where a single block holds most of the time, there is nothing that it could be compared with."""
_TAIL = 0.025
"""Of the 95 % interval, on each side."""


@dataclass(frozen=True, slots=True)
class RangeChange:
    """The ranges with one label in both traces.

    Attributes:
        row: of the table, with means; without an interval where one of the traces does not repeat them, lacks
            them, or lacks kernels of them.
        count: how many of them each trace has.
        launches: how many kernels and copies they launch in each trace.
        has_kernels: whether they launch kernels, or operators, in both traces.
        least: the smallest ratio of one in the optimized trace to one of the baseline: to the one in its place if
            both traces have as many, to the longest if not; then the same with the traces exchanged. None where one
            of the traces lacks them, or kernels of them.
        lacks_kernels: whether launches of theirs left no kernel in each trace: their times are too small there.
    """

    row: Change
    count: tuple[int, int]
    launches: tuple[int, int]
    has_kernels: bool
    least: tuple[float, float] | None
    lacks_kernels: tuple[bool, bool] = (False, False)

    @property
    def is_alike(self) -> bool:
        """Whether both traces have as many of them, with as many launches."""
        return self.count[0] == self.count[1] and self.has_like_launches

    @property
    def has_like_launches(self) -> bool:
        """Whether one of them launches as many kernels and copies in each trace, on average."""
        return self.launches[0] * self.count[1] == self.launches[1] * self.count[0]

    def exchanged(self) -> RangeChange:
        """The change from the optimized trace to the baseline."""
        return replace(
            self,
            row=self.row.exchanged(),
            count=self.count[::-1],
            launches=self.launches[::-1],
            least=self.least[::-1] if self.least else None,
            lacks_kernels=self.lacks_kernels[::-1],
        )


@dataclass(frozen=True, slots=True)
class _Repetitions:
    """The ranges with one label by order of start, shape (ranges,) each.

    Attributes:
        device_ns: time of the kernels and copies of each, above 0 in one of them at least, or kernels are missing.
        work: a number that is the same for two ranges that launch the same names equally often.
        launches: how many kernels and copies each has.
        kernels: how many kernels, graphs and operators.
        missing: how many of its calls that launch left no kernel.
    """

    device_ns: Ints
    work: Ints
    launches: Ints
    kernels: Ints
    missing: Ints

    @property
    def lacks_kernels(self) -> bool:
        """Whether a kernel of one of them is not in the recording."""
        return bool(self.missing.any())


def compare_ranges(before: Trace, after: Trace) -> list[RangeChange]:
    """Mean device time of the ranges with each label; with a 95 % interval of the ratio where both repeat them.

    Where the ranges of both traces do the same work one by one, each is compared with the one in its place:
    they may be the layers of a model, whose times differ by what they do. See `pair_interval`. Elsewhere
    each trace's ranges count as repetitions of one thing, which gives Welch's interval.

    Args:
        before: the baseline.
        after: the optimized trace.

    Returns:
        One for each label, those with the most device time in the baseline first.

    Raises:
        TraceError: the times of a trace are too far apart to be added up.
    """
    return compare_labelled(*label_ranges(before, after))


def compare_labelled(before: LabelledRanges, after: LabelledRanges) -> list[RangeChange]:
    """As `compare_ranges`, of ranges that are labelled already."""
    old, new = (_collect_repetitions(one) for one in (before, after))
    return [_compare_label(label, old.get(label), new.get(label)) for label in dict.fromkeys((*old, *new))]


def _compare_label(label: str, before: _Repetitions | None, after: _Repetitions | None) -> RangeChange:
    both = (before, after)
    old, new = (float(one.device_ns.mean()) if one else None for one in both)
    count_old, count_new = (len(one.device_ns) if one else 0 for one in both)
    launches_old, launches_new = (int(one.launches.sum()) if one else 0 for one in both)
    row = Change.of(Group.RANGE, label, Quantity.TIME, old, new)
    lacks_kernels = before is not None and before.lacks_kernels, after is not None and after.lacks_kernels
    least = None
    if before and after and not any(lacks_kernels):
        if min(count_old, count_new) >= FEWEST_REPETITIONS:
            is_same_work = np.array_equal(before.work, after.work)
            ends = (pair_interval if is_same_work else welch_interval)(before.device_ns, after.device_ns)
            if ends is not None:
                row = replace(row, low=ends[0], high=ends[1])
        least = _least_ratio(before.device_ns, after.device_ns), _least_ratio(after.device_ns, before.device_ns)
    has_kernels = all(one is not None and one.kernels.any() for one in both)
    return RangeChange(row, (count_old, count_new), (launches_old, launches_new), has_kernels, least, lacks_kernels)


def _least_ratio(before: Ints, after: Ints) -> float:
    """See `RangeChange.least`; a range without device time in both traces has no ratio."""
    old = before if len(before) == len(after) else np.full(len(after), before.max())
    is_timed = (old > 0) | (after > 0)
    old, new = old[is_timed].astype(np.float64), after[is_timed].astype(np.float64)
    return float(np.divide(new, old, out=np.full(len(new), np.inf), where=old > 0).min())


def pair_interval(before: Ints, after: Ints) -> tuple[float, float] | None:
    """The 95 % interval of the ratio of the sums, from the log ratios of pairs.

    Neighbours in a recording share clocks and caches, so they form at most 20 blocks of consecutive pairs, each
    with the log ratio of its sums (batch means: Schmeiser 1982, Operations Research 30, 556-568). The log ratio of
    the whole is exactly the mean of the blocks' log ratios with the weights of the logarithmic mean Divisia index
    (Ang 2004, Energy Policy 32, 1131-1139): a block counts by its time. The interval is Student's around that mean,
    with Kish's effective number of blocks. A change that differs between the pairs makes it wider.

    Args:
        before: shape (pairs,), by order of start.
        after: shape (pairs,), of the same pairs.

    Returns:
        Its lower and its upper end; None where one block holds nearly all of the time.
    """
    edges = np.linspace(0, len(before), min(len(before), _MOST_BLOCKS) + 1).astype(np.int64)[:-1]
    old, new = (np.add.reduceat(times, edges).astype(np.float64) for times in (before, after))
    is_timed = (old > 0) & (new > 0)
    old, new = old[is_timed], new[is_timed]
    if len(old) < FEWEST_REPETITIONS:
        return None
    logs = np.log(new / old)
    sums = np.array([old.sum()]), np.array([new.sum()])
    weights = _logarithmic_mean(old, new) / _logarithmic_mean(*sums)
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    if effective < _FEWEST_EFFECTIVE:
        return None
    change = float(weights @ logs)
    error = math.sqrt(float((weights**2) @ (logs - change) ** 2) * effective / (effective - 1))
    half = upper_quantile(_TAIL, effective - 1) * error
    return math.exp(change - half), math.exp(change + half)


def _logarithmic_mean(one: Floats, other: Floats) -> Floats:
    """(a - b) / log(a / b), which lies between both, element by element."""
    is_equal = one == other
    mean: Floats = np.where(is_equal, one, (other - one) / np.log(np.where(is_equal, 2.0, other / one)))
    return mean


def welch_interval(before: Ints, after: Ints) -> tuple[float, float]:
    """The 95 % interval of the ratio of the means of two groups (Welch's, by the delta method).

    Args:
        before: shape (repetitions,).
        after: shape (other repetitions,).
    """
    parts = [float(times.var(ddof=1)) / len(times) / float(times.mean()) ** 2 for times in (before, after)]
    variance = sum(parts)
    half = 0.0
    if variance:
        degrees = variance**2 / sum(
            part**2 / (len(times) - 1) for part, times in zip(parts, (before, after), strict=True)
        )
        half = upper_quantile(_TAIL, degrees) * math.sqrt(variance)
    ratio = float(after.mean()) / float(before.mean())
    return ratio * math.exp(-half), ratio * math.exp(half)


def _count_missing(trace: Trace, details: LaunchDetails) -> Ints:
    """How many calls of each range launch and left no kernel, shape (ranges,)."""
    calls = trace.calls
    rows = np.flatnonzero(flag_without_kernel(trace, details))
    if not len(rows):
        return np.zeros(len(trace.ranges), np.int64)
    return attribute(trace, _all_rows(trace), calls.process[rows], calls.thread[rows], calls.start_ns[rows]).counts


def _all_rows(trace: Trace) -> Ints:
    return np.arange(len(trace.ranges))


def _collect_repetitions(ranges: LabelledRanges) -> dict[str, _Repetitions]:
    """The leading ranges of a trace by label; the longest in total first."""
    trace, table = ranges.trace, ranges.table
    missing = _count_missing(trace, ranges.details)
    costs = table.costs
    # One inside another of its label does not count again.
    outermost = np.flatnonzero(find_outermost(table))
    outermost = outermost[np.argsort(trace.ranges.start_ns[table.rows[outermost]], kind="stable")]
    device_ns, launches = costs.kernel_ns + costs.copy_ns, costs.launches + costs.copies
    # Sums of hashes of names do not depend on the order, which differs between streams. They may wrap around.
    hashes = np.array([_hash(f"{shape.kind} {shape.name}") for shape in trace.shapes] or [0], np.int64)
    work = costs.members.sum_of(hashes[trace.launches.shape[costs.placed]])
    found: dict[str, _Repetitions] = {}
    for number, label in enumerate(table.labels):
        if label not in ranges.leading:
            continue
        rows = outermost[table.label[outermost] == number]
        if device_ns[rows].any() or missing[rows].any():
            columns = (device_ns, work, launches, costs.launches, missing)
            found[label] = _Repetitions(*(column[rows] for column in columns))
    return dict(sorted(found.items(), key=lambda item: -int(item[1].device_ns.sum())))


def _hash(text: str) -> int:
    """A number of 64 bits with a sign, the same in every process."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
