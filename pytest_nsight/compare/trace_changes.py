"""Two traces side by side: where the time went before and after, and which kernels came and went."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from pytest_nsight.analysis.display_names import distinguish
from pytest_nsight.analysis.picture import Picture, analyse
from pytest_nsight.analysis.range_tree import RangeTable
from pytest_nsight.compare.changes import Change, Changes, Group, Quantity
from pytest_nsight.compare.sources import TraceSource
from pytest_nsight.judge.contrast import upper_quantile
from pytest_nsight.model.trace import Ints, Trace
from pytest_nsight.model.units import percent
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.nesting import NO_PARENT

BAND = 0.05
"""Traces of unchanged code differ by several percent, as clocks and caches differ between processes."""
FEWEST_REPETITIONS = 5
_UNITS = {
    "launches": Quantity.COUNT, "calls of operators": Quantity.COUNT, "GPU utilisation": Quantity.SHARE,
    "copy bandwidth": Quantity.RATE,
}  # fmt: skip
"""Of the sums that are no times."""
_JUDGED = ("kernel time", "copy time", "operator time")
_TAIL = 0.025
"""Of the 95 % interval, on each side."""


def compare_traces(before: TraceSource, after: TraceSource, band: float | None) -> Changes:
    """What changed from one trace to another.

    Args:
        before: the baseline.
        after: the optimized trace.
        band: change that counts, as a ratio; None for the default.

    Returns:
        The changes. A range that both traces repeat has an interval over its repetitions, and is a regression if
        the whole interval lies above the band. Without such ranges the kernel and copy time of the whole decides.

    Raises:
        TraceError: the times of a trace are too far apart to be added up.
    """
    band = BAND if band is None else band
    old, new = analyse(before.trace), analyse(after.trace)
    whole = _compare_whole(_sum_up(before.trace, old), _sum_up(after.trace, new))
    ranges = _compare_ranges(before.trace, after.trace)
    kernels = _compare_kernels(old, new)
    repeated = [row for row in ranges if row.low is not None]
    judged = repeated or [row for row in whole if row.name in _JUDGED]
    of_operators = before.trace.is_of_cpu and after.trace.is_of_cpu
    notes = () if repeated else ("no range is repeated in both traces, so no change has an interval",)
    return Changes(
        before=before.title,
        after=after.title,
        rows=(*whole, *_compare_states(old, new), *ranges, *_compare_categories(old, new), *kernels),
        regressions=tuple(_describe(row, band) for row in judged if _is_slower(row, band)),
        notes=(*notes, *_note_kernels(kernels, "operators" if of_operators else "kernels")),
        of_operators=of_operators,
    )


def _compare_whole(old: Mapping[str, float | None], new: Mapping[str, float | None]) -> list[Change]:
    """The seeds' improvement table."""
    return [
        Change.of(Group.WHOLE, name, _UNITS.get(name, Quantity.TIME), old.get(name), new.get(name))
        for name in dict.fromkeys((*old, *new))
    ]


def _sum_up(trace: Trace, picture: Picture) -> dict[str, float | None]:
    if trace.is_of_cpu:
        return {
            "wall time": int(trace.launches.end_ns.max()) - int(trace.launches.start_ns.min()),
            "operator time": sum(one.total_ns for one in picture.kernels),
            "calls of operators": sum(one.calls for one in picture.kernels),
        }
    wall_ns = sum(one.wall_ns for one in picture.devices)
    copied_ns = sum(one.total_ns for one in picture.copies)
    moved = sum(one.bytes_moved for one in picture.copies)
    return {
        "wall time": max((one.wall_ns for one in picture.devices), default=0),
        "kernel time": sum(one.total_ns for one in picture.kernels),
        "copy time": copied_ns,
        "idle time": sum(one.idle_ns for one in picture.devices),
        "synchronisation": sum(one.total_ns for one in picture.calls if one.waits),
        "launches": sum(one.calls for one in picture.kernels),
        "GPU utilisation": sum(one.busy_ns for one in picture.devices) / wall_ns if wall_ns else None,
        "copy bandwidth": 1e9 * moved / copied_ns if copied_ns else None,
    }


def _compare_states(old: Picture, new: Picture) -> list[Change]:
    before = {one.state.value: one.share for one in old.states}
    after = {one.state.value: one.share for one in new.states}
    return [
        Change.of(Group.STATE, name, Quantity.SHARE, before.get(name), after.get(name))
        for name in dict.fromkeys((*before, *after))
        if before.get(name) or after.get(name)
    ]


def _compare_categories(old: Picture, new: Picture) -> list[Change]:
    return _compare_times(
        Group.CATEGORY,
        {one.category: one.total_ns for one in old.categories},
        {one.category: one.total_ns for one in new.categories},
    )


def _compare_kernels(old: Picture, new: Picture) -> list[Change]:
    """Kernels are the same if their full names are; a short name depends on the others in its trace."""
    by_full_name = {one.full_name: one.name for one in (*new.kernels, *old.kernels)}
    texts = distinguish([(full_name, name.partition(" [")[0]) for full_name, name in by_full_name.items()])
    names = dict(zip(by_full_name, texts, strict=True))
    return _compare_times(
        Group.KERNEL,
        {names[one.full_name]: one.total_ns for one in old.kernels},
        {names[one.full_name]: one.total_ns for one in new.kernels},
    )


def _compare_times(group: Group, before: Mapping[str, int], after: Mapping[str, int]) -> list[Change]:
    """One row for each name, those with the largest difference first."""
    rows = [
        Change.of(group, name, Quantity.TIME, before.get(name), after.get(name))
        for name in dict.fromkeys((*before, *after))
    ]
    return sorted(rows, key=lambda row: (-abs((row.after or 0) - (row.before or 0)), row.name))


def _compare_ranges(before: Trace, after: Trace) -> list[Change]:
    """Mean device time of the ranges with one label; with an interval where both traces repeat them."""
    old, new = _time_labels(before), _time_labels(after)
    rows = []
    for label in dict.fromkeys((*old, *new)):
        if label not in old or label not in new:
            means = [float(times[label].mean()) if label in times else None for times in (old, new)]
            rows.append(Change.of(Group.RANGE, label, Quantity.TIME, *means))
        else:
            rows.append(_compare_repetitions(label, old[label], new[label]))
    return rows


def _compare_repetitions(label: str, before: Ints, after: Ints) -> Change:
    """The ratio of the means, with Welch's interval (delta method) where both traces repeat the range."""
    means = float(before.mean()), float(after.mean())
    plain = Change.of(Group.RANGE, label, Quantity.TIME, *means)
    if min(len(before), len(after)) < FEWEST_REPETITIONS:
        return plain
    pairs = list(zip((before, after), means, strict=True))
    parts = [float(times.var(ddof=1)) / len(times) / mean**2 for times, mean in pairs]
    variance = sum(parts)
    half = 0.0
    if variance:
        degrees = variance**2 / sum(
            part**2 / (len(times) - 1) for part, (times, _) in zip(parts, pairs, strict=True)
        )
        half = upper_quantile(_TAIL, degrees) * math.sqrt(variance)
    ratio = means[1] / means[0]
    low, high = ratio * math.exp(-half), ratio * math.exp(half)
    return Change(Group.RANGE, label, Quantity.TIME, *means, ratio, low, high)


def _time_labels(trace: Trace) -> dict[str, Ints]:
    """Device time of every outermost range, and of every one directly inside it, by label."""
    details = LaunchDetails.of(trace)
    table = RangeTable.of(trace, details, np.arange(len(trace.ranges)))
    outer = table.parent == NO_PARENT
    near = np.flatnonzero(outer | outer[table.parent]) if len(table.rows) else np.empty(0, np.int64)
    device_ns = (table.costs.kernel_ns + table.costs.copy_ns)[near]
    found: dict[str, Ints] = {}
    for number, label in enumerate(table.labels):
        own = device_ns[table.label[near] == number]
        if own.any():
            found[label] = own
    return dict(sorted(found.items(), key=lambda item: -int(item[1].sum())))


def _is_slower(row: Change, band: float) -> bool:
    lowest = row.low if row.low is not None else row.ratio
    return lowest is not None and lowest > 1 + band


def _describe(row: Change, band: float) -> str:
    interval = f" ({percent((row.low or 1) - 1)} to {percent((row.high or 1) - 1)})" if row.low is not None else ""
    return f"{row.name}: {percent((row.ratio or 1) - 1)}{interval}, band {percent(band, signed=False)}"


def _note_kernels(kernels: Iterable[Change], what: str) -> tuple[str, ...]:
    gained = [row.name for row in kernels if row.before is None]
    lost = [row.name for row in kernels if row.after is None]
    found = (("gained", gained), ("lost", lost))
    return tuple(f"{what} {change}: {', '.join(names)}" for change, names in found if names)
