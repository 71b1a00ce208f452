"""Sentences on ranges whose times and launches do not add up. Pure."""

from __future__ import annotations

import numpy as np

from pytest_nsight.analysis.intervals import Axis, TimeSet
from pytest_nsight.analysis.range_tree import RangeTable
from pytest_nsight.model.sorted_keys import rank_groups
from pytest_nsight.model.trace import ANY_THREAD, Flags, Ints, Trace
from pytest_nsight.model.units import count, name_some
from pytest_nsight.trace.attribution import is_process_wide
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.nesting import NO_PARENT

_MOST_NAMES = 3
_LEAST_STRAYS = 0.01
"""Of all launches and waits."""


def note_overlaps(trace: Trace, table: RangeTable) -> tuple[str, ...]:
    """A sentence where a start/end range and another range of its level overlap in time; none otherwise.

    Ranges that are pushed and popped nest. Where they seem to overlap, their times are rounded.

    Args:
        trace: the trace.
        table: the ranges.
    """
    late = _find_late(trace, table)
    if not len(late):
        return ()
    begin = count(
        len(late),
        "range begins before another of its level has ended",
        "ranges begin before another of their level has ended",
    )
    text = f"{begin} ({_name_some(table, late)}): what is launched while several are open"
    return (f"{text} counts in each of them, so that shares may add up to more than 100 %",)


def note_helpers(trace: Trace, table: RangeTable) -> tuple[str, ...]:
    """A sentence where ranges contain what other threads launched inside ranges of their own; none otherwise.

    The PyTorch profiler records each operator of autograd's threads as such a range, so its traces have none.

    Args:
        trace: the trace.
        table: the ranges.
    """
    positions = np.flatnonzero(table.costs.members.helped)
    if not len(positions) or "torch" in trace.tool.lower():
        return ()
    contain = count(len(positions), "range contains", "ranges contain")
    text = f"{contain} what other threads launched meanwhile inside ranges of their own"
    why = "a thread whose ranges around a call all lie inside counts as a helper, as autograd's threads do"
    return (f"{text} ({_name_some(table, positions)}): {why}",)


def note_strays(trace: Trace, details: LaunchDetails, table: RangeTable) -> tuple[str, ...]:
    """A sentence where ranges contain what independent threads did outside of their own ranges; none otherwise.

    A thread of a server that launches between its own ranges does so in the open range of another thread.
    Autograd's threads do, too, but have no ranges, or only some inside those of the thread that they help.

    Args:
        trace: the trace.
        details: of its launches.
        table: the ranges.
    """
    costs, calls = table.costs, trace.calls
    narrow = np.flatnonzero(~is_process_wide(trace, table.rows))
    placed, calling = costs.placed, costs.calling
    launched = trace.launches.process[placed], *details.origin(trace, placed)
    waited = calls.process[calling], calls.thread[calling], calls.start_ns[calling]
    strays = np.zeros(len(table.rows), np.int64)
    number = 0
    for members, place in ((costs.members, launched), (costs.waiting, waited)):
        is_stray = _flag_strays(trace, table.rows[narrow], table.parent[narrow] == NO_PARENT, place)
        of_range = members.sum_of(is_stray.astype(np.int64))
        strays[narrow] += of_range[narrow]
        number += int(np.isin(np.flatnonzero(is_stray), members.among(narrow)).sum())
    positions = np.flatnonzero(strays)
    if number < _LEAST_STRAYS * (len(placed) + len(calling)) or not len(positions):
        return ()
    what = count(number, "launch or wait", "launches and waits")
    why = (
        "each counts for the ranges that other threads have open; give these threads ranges around all that they do"
    )
    return (
        f"{what} in ranges ({_name_some(table, positions)}) are of threads outside of ranges of their own: {why}",
    )


def _flag_strays(trace: Trace, rows: Ints, is_outermost: Flags, place: tuple[Ints, Ints, Ints]) -> Flags:
    """Which events are of a thread that has outermost ranges, and in none of its ranges.

    Args:
        trace: the trace.
        rows: of the ranges that are bound to threads.
        is_outermost: which of these lie in no other one.
        place: process, thread and time of each event.
    """
    process, thread, time_ns = place
    none = np.zeros(len(time_ns), np.bool_)
    if not len(rows) or not len(time_ns):
        return none
    ranges = trace.ranges
    line, lines = rank_groups(
        np.concatenate([process, ranges.process[rows]]), np.concatenate([thread, ranges.thread[rows]])
    )
    start_ns, end_ns = ranges.start_ns[rows], np.maximum(ranges.start_ns[rows], ranges.end_ns[rows])
    low_ns, high_ns = min(start_ns.min(), time_ns.min()), max(end_ns.max(), time_ns.max())
    axis = Axis.over(int(low_ns), int(high_ns) + 1, lines)
    is_independent = np.zeros(lines, np.bool_)
    is_independent[line[len(time_ns) :][is_outermost]] = True
    inside = TimeSet.union(axis, line[len(time_ns) :], start_ns, end_ns)
    if not len(inside.start):
        return none
    at = axis.place(line[: len(time_ns)], time_ns)
    flags: Flags = is_independent[line[: len(time_ns)]] & (inside.covered(at, at + 1) == 0)
    return flags


def _name_some(table: RangeTable, positions: Ints) -> str:
    return name_some(dict.fromkeys(table.labels[label] for label in table.label[positions].tolist()), _MOST_NAMES)


def _find_late(trace: Trace, table: RangeTable) -> Ints:
    """Positions of the ranges that begin before an earlier one of their process and parent has ended.

    Two of them that are pushed are no overlap: in one thread they nest, and two threads launch each their own.
    """
    ranges = trace.ranges.take(table.rows)
    order = np.lexsort((ranges.start_ns, table.parent, ranges.process))
    start_ns, end_ns, is_loose = ranges.start_ns[order], ranges.end_ns[order], (ranges.thread == ANY_THREAD)[order]
    if not is_loose.any():
        return np.empty(0, np.int64)
    keys = np.column_stack([ranges.process, table.parent])[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    # Ranks of times, so that a group's largest end is found in one pass over all groups.
    times, ranks = np.unique(np.concatenate([start_ns, end_ns]), return_inverse=True)
    offset = np.cumsum(is_first) * (len(times) + 1)
    begin, end = ranks[: len(order)] + offset, ranks[len(order) :] + offset
    after_any, after_loose = (np.maximum.accumulate(ends) for ends in (end, np.where(is_loose, end, offset)))
    is_late = np.zeros(len(order), np.bool_)
    is_late[1:] = (begin[1:] < np.where(is_loose[1:], after_any[:-1], after_loose[:-1])) & ~is_first[1:]
    return np.sort(order[is_late & (end_ns > start_ns)])
