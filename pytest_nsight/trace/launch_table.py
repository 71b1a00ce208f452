"""What is known of each launch without its ranges, and sums over launches that are sorted by range.

The sums are exact integers. Their cost depends on the number of launches, not on the number of ranges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_nsight.model.shapes import COMPUTE_KINDS
from pytest_nsight.model.trace import ANY_THREAD, Flags, Ints, SmallInts, Trace
from pytest_nsight.trace.attribution import NO_CALL, find_calls
from pytest_nsight.trace.descendants import UNKNOWN_BOARD, find_boards
from pytest_nsight.trace.launches_by_time import Rounds, find_rounds_by_time

MOST_PAIRS = 1_000_000_000
"""Pairs of a range and a launch in it: more would take hours to list."""
NO_DEVICE = -1


@dataclass(frozen=True, slots=True)
class LaunchDetails:
    """The call and the cost of each launch, shape (launches,) each.

    Attributes:
        call: row of the call that launched it, NO_CALL if unknown.
        is_placed: whether the time of the launch on the host is known, at least as far as its round goes.
        by_time: whether only its round is known, from the times of the device.
        host_ns: time on the host of a placed launch without a call: its own start if it is an operator, else the
            start of its round.
        is_compute: kernel, graph or operator, as opposed to a copy.
        duration_ns: int64.
        launch_ns: duration of its call, for the first computing launch of each call; else 0.
    """

    call: Ints
    is_placed: Flags
    by_time: Flags
    host_ns: Ints
    is_compute: Flags
    duration_ns: Ints
    launch_ns: Ints

    @classmethod
    def of(cls, trace: Trace, rounds: Rounds | None = None) -> LaunchDetails:
        """The details of all launches of a trace.

        Args:
            trace: any trace.
            rounds: those of its workers, where they are known.
        """
        launches, calls = trace.launches, trace.calls
        kinds = np.array([shape.kind for shape in trace.shapes], np.str_)
        call = find_calls(trace)
        is_compute = np.isin(kinds, COMPUTE_KINDS)[launches.shape]
        is_operator = (kinds == "operator")[launches.shape]
        # All launches of a call are in the same ranges, so one of them carries the time of the call.
        candidates = np.flatnonzero(is_compute & (call != NO_CALL))
        carrier = np.full(len(calls), -1, np.int64)
        carrier[call[candidates]] = candidates
        with_launch = np.flatnonzero(carrier >= 0)
        launch_ns = np.zeros(len(launches), np.int64)
        launch_ns[carrier[with_launch]] = np.maximum(calls.end_ns - calls.start_ns, 0)[with_launch]
        unknown = np.flatnonzero((call == NO_CALL) & ~is_operator)
        by_time, host_ns = np.zeros(len(launches), np.bool_), launches.start_ns.copy()
        by_time[unknown], host_ns[unknown] = find_rounds_by_time(trace, unknown, rounds)
        return cls(
            call=call,
            is_placed=(call != NO_CALL) | is_operator | by_time,
            by_time=by_time,
            host_ns=host_ns,
            is_compute=is_compute,
            duration_ns=np.maximum(launches.end_ns - launches.start_ns, 0),
            launch_ns=launch_ns,
        )

    def origin(self, trace: Trace, launched: Ints) -> tuple[Ints, Ints]:
        """Thread and time on the host, shape (launched,) each; a launch without a call has no thread."""
        call = self.call[launched]
        is_own = call == NO_CALL
        if not is_own.any():
            return trace.calls.thread[call], trace.calls.start_ns[call]
        thread = np.full(len(launched), ANY_THREAD, np.int64)
        time_ns = self.host_ns[launched]
        thread[~is_own] = trace.calls.thread[call[~is_own]]
        time_ns[~is_own] = trace.calls.start_ns[call[~is_own]]
        return thread, time_ns


def measure_launches(
    trace: Trace, details: LaunchDetails, where: Ints, row: Ints, size: int
) -> tuple[dict[str, Ints], dict[str, Ints]]:
    """Launches added up by group: "kernel_ns" and the other sums of a range, and its uses.

    Args:
        trace: the trace.
        details: LaunchDetails of the trace.
        where: shape (members,), number of the group, sorted.
        row: shape (members,), row of the launch.
        size: number of groups.
    """
    launches = trace.launches
    where, row = sort_by_start(where, row, launches.start_ns)
    is_compute, duration_ns = details.is_compute[row], details.duration_ns[row]
    compute, copy = np.flatnonzero(is_compute), np.flatnonzero(~is_compute)
    sums = measure_busy(where[compute], launches.start_ns[row[compute]], launches.end_ns[row[compute]], size)
    sums["kernel_ns"] = sum_by(where[compute], duration_ns[compute], size)
    sums["launch_ns"] = sum_by(where[compute], details.launch_ns[row[compute]], size)
    sums["launches"] = np.bincount(where[compute], minlength=size)
    sums["copy_ns"] = sum_by(where[copy], duration_ns[copy], size)
    sums["copied_bytes"] = sum_by(where[copy], launches.bytes_moved[row[copy]], size)
    sums["copies"] = np.bincount(where[copy], minlength=size)
    device = np.full(size, NO_DEVICE, np.int64)
    device[where[::-1]] = launches.device[row[::-1]]
    sums["device"] = device
    sums["board"], sums["is_split"] = _find_boards(trace, where, row, size)
    uses = count_shapes(where, launches.shape[row], duration_ns, launches.start_ns[row], len(trace.shapes))
    return sums, uses


def _find_boards(trace: Trace, where: Ints, row: Ints, size: int) -> tuple[Ints, Ints]:
    """By group: the board of its first launch, and whether another launch ran on another board."""
    boards = find_boards(trace, row)
    first = np.full(size, UNKNOWN_BOARD, np.int64)
    first[where[::-1]] = boards[::-1]
    is_split = np.zeros(size, np.int64)
    is_split[where[(boards != first[where]) & (boards != UNKNOWN_BOARD) & (first[where] != UNKNOWN_BOARD)]] = 1
    return first, is_split


def sort_by_start(where: Ints, row: Ints, start_ns: Ints) -> tuple[Ints, Ints]:
    """Launches in order of range, start and row.

    Args:
        where: shape (launches,), number of the range of each, sorted.
        row: shape (launches,), row of each in the table.
        start_ns: shape (rows,), start of each row of the table.

    Returns:
        ``where`` and ``row`` in the new order.
    """
    time_ns = start_ns[row]
    is_sorted = (where[1:] > where[:-1]) | (time_ns[1:] > time_ns[:-1])
    if is_sorted.all():
        return where, row
    order = np.lexsort((row, time_ns, where))
    return where[order], row[order]


def sum_by(where: Ints, values: Ints, size: int) -> Ints:
    """Exact sums of integers by group, shape (size,).

    Args:
        where: shape (values,), group of each value, sorted.
        values: int64.
        size: number of groups.
    """
    edges = np.searchsorted(where, np.arange(size + 1))
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
    return np.diff(running[edges])


def measure_busy(where: Ints, start_ns: Ints, end_ns: Ints, size: int) -> dict[str, Ints]:
    """Union ("busy_ns"), first start to last end ("span_ns") and gaps ("gap_ns") of intervals, by group.

    Args:
        where: shape (intervals,), group of each, sorted.
        start_ns: sorted within each group.
        end_ns: not before the start.
        size: number of groups.
    """
    last_ns = _running_maximum(where, end_ns)
    is_first = np.ones(len(where), np.bool_)
    is_first[1:] = where[1:] != where[:-1]
    seen_ns = np.empty_like(last_ns)
    seen_ns[1:] = last_ns[:-1]
    seen_ns[is_first] = start_ns[is_first]
    busy_ns = sum_by(where, np.maximum(end_ns - np.maximum(start_ns, seen_ns), 0), size)
    is_last = np.ones(len(where), np.bool_)
    is_last[:-1] = is_first[1:]
    span_ns = np.zeros(size, np.int64)
    span_ns[where[is_last]] = last_ns[is_last] - start_ns[is_first]
    return {"busy_ns": busy_ns, "span_ns": span_ns, "gap_ns": span_ns - busy_ns}


def _running_maximum(where: Ints, values: Ints) -> Ints:
    """The largest value so far in each group."""
    if not len(values):
        return values
    lowest, span = int(values.min()), int(values.max()) - int(values.min()) + 1
    group = np.cumsum(np.concatenate([[0], where[1:] != where[:-1]]))
    if (int(group[-1]) + 1) * span >= 2**62:
        # Times this far apart come from a damaged file; groups one by one are slow, but exact.
        edges = np.flatnonzero(np.diff(group)) + 1
        return np.concatenate([np.maximum.accumulate(part) for part in np.split(values, edges)])
    reached = np.maximum.accumulate(values - lowest + group * span)
    maxima: Ints = reached - group * span + lowest
    return maxima


def count_shapes(where: Ints, shape: SmallInts, duration_ns: Ints, start_ns: Ints, shapes: int) -> dict[str, Ints]:
    """Launches by group and shape: "range", "shape", "count", "total_ns", "first_start_ns".

    Args:
        where: shape (launches,), group of each, sorted.
        shape: which shape each launch has.
        duration_ns: of each launch.
        start_ns: sorted within each group.
        shapes: number of shapes.
    """
    keys = where * max(shapes, 1) + shape
    # Groups follow one another, so that a stable sort finds nearly all in order already.
    order = np.argsort(keys, kind="stable")
    is_first = np.ones(len(keys), np.bool_)
    is_first[1:] = keys[order[1:]] != keys[order[:-1]]
    first = np.flatnonzero(is_first)
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(duration_ns[order])])
    edges = np.append(first, len(keys))
    by_time = np.argsort(order[first], kind="stable")
    launch = order[first][by_time]
    return {
        "range": where[launch],
        "shape": shape[launch].astype(np.int64),
        "count": np.diff(edges)[by_time],
        "total_ns": np.diff(running[edges])[by_time],
        "first_start_ns": start_ns[launch],
    }
