"""In which ranges the host was while devices were idle: where in the program to look for the cause. Pure.

Each instant of a process belongs to the range that was opened last and is still open, whichever thread opened it;
where none is, it is outside of every range: the start of a program, and what is between its steps. The idle time of
a device counts for the process that uses it, or for all that do as if they were one; so the rows add up to it.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from pytest_nsight.analysis.bottleneck import Bottleneck
from pytest_nsight.analysis.idle_causes import HOST_GAP_NS, IdleCause
from pytest_nsight.analysis.intervals import Axis, TimeSet
from pytest_nsight.analysis.range_tree import OUTSIDE, RangeNode, RangeTable
from pytest_nsight.analysis.timeline import Timeline
from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.trace import Ints, Trace
from pytest_nsight.model.units import duration

_MOST = 30
"""Labels that are listed: those with the most idle time."""
_MOSTLY = 0.5
"""Share of the wall time outside of every range above which the bottleneck says so."""


@dataclass(frozen=True, slots=True)
class IdlePlace:
    """The idle time of all devices while ranges of one label are the innermost open ones.

    Attributes:
        label: what the ranges are called, OUTSIDE where no range is open.
        total_ns: over all devices.
        share: of the wall time of all devices.
        largest_ns: the most in one of the ranges; outside of them, in one stretch.
        cause: which has the largest part of it.
        cause_ns: how large that part is.
    """

    label: str
    total_ns: int
    share: float
    largest_ns: int
    cause: IdleCause
    cause_ns: int


@dataclass(frozen=True, slots=True)
class _InnermostRanges:
    """When which range is the innermost one, for each device that its process uses; shape (stretches,) each."""

    position: Ints
    line: Ints
    start_ns: Ints
    end_ns: Ints


def find_idle_places(trace: Trace, timeline: Timeline, table: RangeTable, window: TimeSet) -> tuple[IdlePlace, ...]:
    """The labels with the most idle time, the largest first; none where the trace has no ranges or no idle time.

    Args:
        trace: the trace.
        timeline: of its devices.
        table: the ranges.
        window: what the picture is about.
    """
    rest = timeline.whole().minus(window)
    found = {cause: times.minus(rest) for cause, times in timeline.states.items() if isinstance(cause, IdleCause)}
    causes = {cause: times for cause, times in found.items() if len(times.start)}
    if not causes or not len(table.rows):
        return ()
    stretches = _list_stretches(trace, timeline, table)
    covered = TimeSet.union(timeline.axis, stretches.line, stretches.start_ns, stretches.end_ns)
    outside = {cause: times.minus(covered) for cause, times in causes.items()}
    largest_ns = int(reduce(TimeSet.merged, outside.values()).length_ns.max(initial=0))
    places = [_describe(OUTSIDE, {cause: times.total_ns for cause, times in outside.items()}, largest_ns, window)]
    held = {cause: _sum_by_range(times, stretches, len(table.rows)) for cause, times in causes.items()}
    own_ns = np.sum(list(held.values()), axis=0)
    totals = np.zeros(len(table.labels), np.int64)
    np.add.at(totals, table.label, own_ns)
    for label in np.argsort(-totals, kind="stable")[:_MOST].tolist():
        chosen = np.flatnonzero(table.label == label)
        sums = {cause: int(times_ns[chosen].sum()) for cause, times_ns in held.items()}
        places.append(_describe(table.labels[label], sums, int(own_ns[chosen].max()), window))
    return tuple(sorted((one for one in places if one.total_ns), key=lambda one: -one.total_ns))


def locate(
    bottleneck: Bottleneck | None, places: Sequence[IdlePlace], ranges: Sequence[RangeNode], timeline: Timeline
) -> Bottleneck | None:
    """A bottleneck that says so if the devices are idle outside of every range, or in one gap, most of the time.

    Args:
        bottleneck: of the whole trace.
        places: where its idle time is.
        ranges: the tree, the outermost range with the most device time first.
        timeline: of the trace.
    """
    if not ranges:
        return _point_out_gap(bottleneck, timeline)
    outside = next((one for one in places if one.label == OUTSIDE), None)
    if bottleneck is None or outside is None or outside.share <= _MOSTLY:
        return bottleneck
    part = f"{100 * outside.share:.1f} % are idle outside of every range, {duration(outside.largest_ns)} at once"
    remedy = f"look at ranges alone, as with --range {shlex.quote(ranges[0].path[0])}, or {bottleneck.remedy}"
    return replace(bottleneck, evidence=f"{bottleneck.evidence}; {part}", remedy=remedy)


def _point_out_gap(bottleneck: Bottleneck | None, timeline: Timeline) -> Bottleneck | None:
    """A bottleneck that says so if all devices are idle at once in one gap that is most of the wall time."""
    gap_ns, after_ns = _find_longest_gap(timeline)
    if bottleneck is None or gap_ns <= max(_MOSTLY * timeline.whole().length_ns.max(initial=0), HOST_GAP_NS):
        return bottleneck
    after = duration(after_ns)
    part = f"one gap has {duration(gap_ns)}, {after} after the first launch"
    remedy = f"record without that gap, as with --delay of nsys, or {bottleneck.remedy}"
    return replace(bottleneck, evidence=f"{bottleneck.evidence}; {part}", remedy=remedy)


def _find_longest_gap(timeline: Timeline) -> tuple[int, int]:
    """The longest time in which no device works, and how long after the first launch it begins."""
    busy = timeline.busy
    axis = Axis(timeline.axis.low_ns, timeline.axis.span_ns, min(timeline.axis.lines, 1))
    united = TimeSet.union(axis, np.zeros(len(busy.start), np.int64), busy.start_ns, busy.start_ns + busy.length_ns)
    gaps_ns = united.start[1:] - united.end[:-1]
    if not len(gaps_ns):
        return 0, 0
    longest = int(gaps_ns.argmax())
    return int(gaps_ns[longest]), int(united.end[longest])


def _list_stretches(trace: Trace, timeline: Timeline, table: RangeTable) -> _InnermostRanges:
    ranges, lines = trace.ranges.take(table.rows), timeline.axis.lines
    users: dict[int, list[int]] = {}
    for pair in distinct(trace.launches.process * lines + timeline.device).tolist():
        users.setdefault(pair % lines, []).append(pair // lines)
    used_by: dict[tuple[int, ...], list[int]] = {}
    for number, processes in users.items():
        used_by.setdefault(tuple(processes), []).append(number)
    parts = []
    for together, used in used_by.items():
        own = np.flatnonzero(np.isin(ranges.process, together) & (ranges.end_ns > ranges.start_ns))
        innermost, start_ns, end_ns = _find_innermost(ranges.start_ns[own], ranges.end_ns[own])
        line = np.repeat(used, len(innermost))
        parts.append(
            (np.tile(own[innermost], len(used)), line, *(np.tile(x, len(used)) for x in (start_ns, end_ns)))
        )
    return _InnermostRanges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _find_innermost(start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints, Ints]:
    """The open interval that began last, with the begin and the end of each stretch in which it is the same one.

    Args:
        start_ns: shape (intervals,).
        end_ns: shape (intervals,), after the starts.
    """
    number = len(start_ns)
    # Of those that begin together the shortest is the innermost.
    order = np.lexsort((-end_ns, start_ns))
    times = np.concatenate([start_ns[order], end_ns[order]])
    events = np.lexsort((np.arange(2 * number) < number, times))
    is_closed = bytearray(number)
    opened: list[int] = []
    innermost = []
    for event in events.tolist():
        if event < number:
            opened.append(event)
        else:
            is_closed[event - number] = True
            while opened and is_closed[opened[-1]]:
                opened.pop()
        innermost.append(opened[-1] if opened else -1)
    at, found = times[events], np.asarray(innermost, np.int64)
    kept = np.flatnonzero((found[:-1] >= 0) & (at[1:] > at[:-1]))
    return order[found[kept]], at[kept], at[kept + 1]


def _sum_by_range(times: TimeSet, stretches: _InnermostRanges, ranges: int) -> Ints:
    """How much of some time each range holds, shape (ranges,)."""
    edges = (times.axis.place(stretches.line, edge_ns) for edge_ns in (stretches.start_ns, stretches.end_ns))
    held = np.zeros(ranges, np.int64)
    np.add.at(held, stretches.position, times.covered(*edges))
    return held


def _describe(label: str, causes: Mapping[IdleCause, int], largest_ns: int, window: TimeSet) -> IdlePlace:
    cause, total_ns = max(causes, key=lambda one: causes[one]), sum(causes.values())
    return IdlePlace(label, total_ns, total_ns / window.total_ns, largest_ns, cause, causes[cause])
