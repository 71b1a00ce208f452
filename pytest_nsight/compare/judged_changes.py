"""Which changes between two traces are regressions, the verdicts, and what was not judged and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_nsight.analysis.range_mix import FEWEST_REPETITIONS
from pytest_nsight.compare.change_sentences import (
    describe,
    describe_means,
    describe_sum,
    explain_missing,
    explain_no_interval,
    explain_uncertain_sum,
    explain_unjudged_sum,
)
from pytest_nsight.compare.changes import Change, Group
from pytest_nsight.compare.range_changes import RangeChange
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.units import name_some
from pytest_nsight.model.verdicts import VerdictKind

TOTALS = ("kernel time", "copy time", "operator time")
_KERNELS, _COPIES, _OPERATORS = TOTALS
_MICROSECOND_NS = 1000
_PART = 0.5
"""Of the band, which a range has to add to the whole."""
_CLEAR = 5
"""Bands by which a small part of the trace has to slow: an interval does not know how processes differ. In eight
recordings of unchanged code on one H200, the kernel of a softmax took 270 to 324 us (20 %), a product of matrices
differed by 10 %, and neither changed the whole by more than 2 %."""


@dataclass(frozen=True, slots=True)
class JudgedChanges:
    """What fails, and what the reader should know of it.

    Attributes:
        regressions: one sentence for each.
        notes: sentences on what has no interval, or is not judged.
        verdicts: group and name of each row that was judged -> its verdict.
    """

    regressions: tuple[str, ...]
    notes: tuple[str, ...]
    verdicts: Mapping[tuple[Group, str], VerdictKind]


@dataclass(frozen=True, slots=True)
class _Floors:
    """What a change has to exceed.

    Attributes:
        band: as a ratio.
        tick_ns: of each launch.
        part_ns: of the whole, by the device time of the baseline and by that of the optimized trace.
    """

    band: float
    tick_ns: int
    part_ns: tuple[float, float]

    def exchanged(self) -> _Floors:
        """Those of the comparison in the other direction."""
        return replace(self, part_ns=self.part_ns[::-1])


def judge_changes(
    totals: Sequence[Change],
    ranges: Sequence[RangeChange],
    launches: tuple[Mapping[str, int], Mapping[str, int]],
    lacks_kernels: tuple[bool, bool],
    tick_ns: int,
    band: float,
) -> JudgedChanges:
    """Which of the changes are regressions, and the verdict on each row that is judged.

    A range with an interval is one if the whole interval lies above the band, and the range adds at least half the
    band to the device time of the whole. A range that adds less is one if it launches kernels and the whole
    interval lies above five bands: the time of a copy depends on the host, too. A total is one if its sum lies
    above the band; a range without an interval is judged by its mean, see `_is_slower_once`.

    A sum that changed for the most part inside the repeated range with the most device time is left to that one's
    interval, if this settles nothing: one slow launch among many steps says nothing of the next recording.

    A sum over other numbers of launches may come from other numbers of steps, or from a lost fusion. It is judged
    only where no range has an interval, and the repeated range with the most device time, which is the step if
    there is one, occurs equally often in both traces or has less than half of that time. The sum of the copies is
    judged only where no range has an interval.

    An IMPROVEMENT is what would be a regression if the traces were exchanged. See `_settle` for the rest.

    Args:
        totals: those of TOTALS that the traces have.
        ranges: the ranges of both traces.
        launches: of each total, before and after.
        lacks_kernels: whether launches left no kernel in each trace; what they belong to is INCONCLUSIVE.
        tick_ns: see `find_tick`; a smaller change of each launch is no change.
        band: change that counts, as a ratio.
    """
    whole_ns, whole_after_ns = _sum_up(totals, lacks_kernels)
    limits = _Floors(band, tick_ns, (_PART * band * whole_ns, _PART * band * whole_after_ns))
    repeated = [change for change in ranges if change.row.low is not None]
    verdicts = {_key(change.row): verdict for change in ranges if (verdict := _judge_range(change, limits))}
    slower = [
        describe(change.row, band) for change in repeated if verdicts[_key(change.row)] is VerdictKind.REGRESSION
    ]
    noun = "operator" if any(row.name == _OPERATORS for row in totals) else "launch"
    steps = next((change for change in ranges if min(change.count) > 0 and max(change.count) > 1), None)
    steps_ns = (steps.row.before or 0) * steps.count[0] if steps is not None else 0
    is_other_count = steps is not None and steps.count[0] != steps.count[1] and 2 * steps_ns > whole_ns
    incomplete = [change for change in ranges if min(change.count) > 0 and any(change.lacks_kernels)]
    is_repeated = bool(repeated) or any(min(change.count) >= FEWEST_REPETITIONS for change in incomplete)
    notes = [] if is_repeated else [explain_no_interval(ranges, steps)]
    if any(lacks_kernels):
        notes.append(explain_missing([_KERNELS, *(change.row.name for change in incomplete)], lacks_kernels))
    for row in totals:
        old, new = (counts.get(row.name, 0) for counts in launches)
        if is_repeated and row.name == _COPIES:
            continue
        if any(lacks_kernels) and row.name == _KERNELS:
            verdicts[_key(row)] = VerdictKind.INCONCLUSIVE
            continue
        if old != new and steps is not None and (is_repeated or is_other_count):
            notes.append(explain_unjudged_sum(row.name, (old, new), noun, steps))
        elif row.before or row.after:
            verdict = _judge_sum(row, (old, new), limits)
            if steps is not None and _is_left_to(steps, row, verdict, verdicts):
                verdict = VerdictKind.INCONCLUSIVE
                notes.append(explain_uncertain_sum(row, steps))
            verdicts[_key(row)] = verdict
            if verdict is VerdictKind.REGRESSION:
                slower.append(describe_sum(row, (old, new), noun, band))
    single, unjudged = _describe_single(ranges, verdicts, limits, noun)
    if unjudged:
        notes.append(
            "ranges that are slower but not judged, as they have no interval and the traces differ in the number "
            f"of their launches: {name_some(unjudged)}; record each at least {FEWEST_REPETITIONS} times in both"
        )
    return JudgedChanges((*slower, *single), tuple(notes), verdicts)


def _sum_up(totals: Sequence[Change], lacks_kernels: tuple[bool, bool]) -> tuple[float, float]:
    """The device time of the whole in each trace; the larger one for both where kernels are missing.

    Without its lost kernels a trace is too short, and too little would add half the band to it.
    """
    before, after = sum(row.before or 0 for row in totals), sum(row.after or 0 for row in totals)
    return (max(before, after),) * 2 if any(lacks_kernels) else (before, after)


def _key(row: Change) -> tuple[Group, str]:
    return row.group, row.name


def _judge_range(change: RangeChange, limits: _Floors) -> VerdictKind | None:
    """The verdict on the ranges with one label; None where a trace lacks them, or they cannot be judged."""
    row = change.row
    if row.before is None or row.after is None:
        return None
    if any(change.lacks_kernels):
        return VerdictKind.INCONCLUSIVE
    is_slower = _is_slower if row.low is not None else _is_slower_once
    if is_slower(change, limits):
        return VerdictKind.REGRESSION
    if is_slower(change.exchanged(), limits.exchanged()):
        return VerdictKind.IMPROVEMENT
    if row.low is None and not change.is_alike:
        return None
    return _settle(row, limits.band, limits.tick_ns * max(change.launches) / min(change.count))


def _judge_sum(row: Change, launches: tuple[int, int], limits: _Floors) -> VerdictKind:
    old, new = launches
    if _is_above(row, limits.band, limits.tick_ns * old):
        return VerdictKind.REGRESSION
    if _is_above(row.exchanged(), limits.band, limits.tick_ns * new):
        return VerdictKind.IMPROVEMENT
    return _settle(row, limits.band, limits.tick_ns * max(old, new))


def _is_left_to(
    steps: RangeChange, row: Change, verdict: VerdictKind, verdicts: Mapping[tuple[Group, str], VerdictKind]
) -> bool:
    """Whether a sum has changed for the most part inside the steps, whose interval settles nothing."""
    if verdict not in (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT):
        return False
    if steps.row.low is None or verdicts[_key(steps.row)] is not VerdictKind.INCONCLUSIVE:
        return False
    change_ns = (row.after or 0) - (row.before or 0)
    inside_ns = (steps.row.after or 0) * steps.count[1] - (steps.row.before or 0) * steps.count[0]
    return abs(change_ns - inside_ns) < abs(change_ns) / 2


def _settle(row: Change, band: float, floor_ns: float) -> VerdictKind:
    """The verdict on what is neither slower nor faster.

    It is UNCHANGED if the change does not exceed the floor, or the interval, or the ratio without one, lies within
    the band. The rest is INCONCLUSIVE: the interval reaches beyond the band, or the range is a small part.
    """
    if abs((row.after or 0) - (row.before or 0)) <= floor_ns:
        return VerdictKind.UNCHANGED
    low, high = (row.low, row.high) if row.low and row.high else (row.ratio, row.ratio)
    is_within = low is not None and high is not None and low * (1 + band) >= 1 and high <= 1 + band
    return VerdictKind.UNCHANGED if is_within else VerdictKind.INCONCLUSIVE


def _is_slower(change: RangeChange, limits: _Floors) -> bool:
    """Whether a range with an interval is slower, and no small part of the trace or very much so."""
    times, floor_ns = change.count[0], limits.tick_ns * change.launches[0]
    if _is_above(change.row, limits.band, max(floor_ns, limits.part_ns[0]) / times):
        return True
    return change.has_kernels and _is_above(change.row, _CLEAR * limits.band, floor_ns / times)


def _is_slower_once(change: RangeChange, limits: _Floors) -> bool:
    """Whether a range without an interval is slower: its mean adds at least half the band to the whole.

    If it occurs in another number, or launches other numbers of kernels, each one has to be slower by more than the
    band, see `RangeChange.least`. One that occurs once in a trace may hold another number of steps, so each has to
    launch as many kernels there.
    """
    if not _adds_to_whole(change, limits):
        return False
    if change.is_alike:
        return True
    is_comparable = change.has_like_launches or min(change.count) > 1
    return is_comparable and change.least is not None and change.least[0] > 1 + limits.band


def _adds_to_whole(change: RangeChange, limits: _Floors) -> bool:
    floor_ns = max(limits.tick_ns * change.launches[0], limits.part_ns[0])
    return _is_above(change.row, limits.band, floor_ns / change.count[0])


def _describe_single(
    ranges: Sequence[RangeChange], verdicts: Mapping[tuple[Group, str], VerdictKind], limits: _Floors, noun: str
) -> tuple[list[str], list[str]]:
    """The regressions among the ranges without an interval, and the names of slower ones that are not judged."""
    slower, unjudged = [], []
    for change in ranges:
        row = change.row
        if row.low is not None or row.before is None or row.after is None or any(change.lacks_kernels):
            continue
        if not _adds_to_whole(change, limits):
            continue
        if verdicts.get(_key(row)) is not VerdictKind.REGRESSION:
            unjudged.append(row.name)
        elif change.is_alike:
            slower.append(describe_sum(row, change.launches, noun, limits.band))
        else:
            slower.append(describe_means(row, change.count, limits.band))
    return slower, unjudged


def find_tick(*traces: Trace) -> int:
    """The unit of the times in ns: 1000 where all launches take whole microseconds, as of older Kineto; else 0.

    A kernel of 4.98 us becomes one of 5.02 us, and its rounded times differ by 25 % in every launch.
    """
    whole = all(
        bool(np.all((one.launches.end_ns - one.launches.start_ns) % _MICROSECOND_NS == 0)) for one in traces
    )
    return _MICROSECOND_NS if whole else 0


def _is_above(row: Change, band: float, floor_ns: float) -> bool:
    """Whether a time grew by more than the band and the floor; from 0, by more than the floor."""
    if row.before is None or row.after is None or row.after - row.before <= floor_ns:
        return False
    lowest = row.low if row.low is not None else row.ratio
    return lowest is None or lowest > 1 + band
