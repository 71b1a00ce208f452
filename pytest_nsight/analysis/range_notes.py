"""Sentences on ranges whose times and launches do not add up. Pure."""

from __future__ import annotations

import numpy as np

from pytest_nsight.analysis.range_tree import RangeTable
from pytest_nsight.model.trace import ANY_THREAD, Ints, Trace
from pytest_nsight.model.units import count, name_some

_MOST_NAMES = 3


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
