"""Which launches belong to which ranges.

A launch belongs to a range when the API call that made it begins inside the range's window on the host, in
the same process; when and where the device runs it does not matter. Which threads count depends on the range:

* A range of the project's own domain, or one bound to no thread, takes the calls of every thread: a process
  runs one round at a time, and autograd launches the backward pass from threads of its own.
* Any other range takes the calls of its own thread, and those of a thread of which no such range encloses
  the call.

The method is one sort of the calls by time and two binary searches a range, so that its cost does not depend
on how ranges nest, cross or repeat.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_nsight.model.trace import ANY_THREAD, OWN_DOMAIN, Flags, Ints, Ranges, Trace

NO_CALL = -1


@dataclass(frozen=True, slots=True)
class Membership:
    """Which events lie in which ranges, without listing the pairs.

    Attributes:
        order: event numbers, sorted in such a way that the events of a range are two slices.
        low: shape (ranges, 2), first index into ``order`` of the slices.
        high: shape (ranges, 2), one past their last.
        covered: shape (events,), whether an event lies in any range.
    """

    order: Ints
    low: Ints
    high: Ints
    covered: Flags

    @property
    def counts(self) -> Ints:
        """Number of events in each range, shape (ranges,)."""
        counts: Ints = (self.high - self.low).sum(axis=1)
        return counts

    def pairs(self, first: int, last: int) -> tuple[Ints, Ints]:
        """The pairs (range, event) of some ranges, sorted by range.

        Args:
            first: number of the first range.
            last: one past the last.

        Returns:
            Two arrays of equal length: range numbers, counted from 0 for the first, and event numbers.
        """
        low, high = self.low[first:last].ravel(), self.high[first:last].ravel()
        lengths = high - low
        slices = np.repeat(np.arange(len(low)), lengths)
        position = np.arange(len(slices)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return slices // 2, self.order[low[slices] + position]


def find_calls(trace: Trace) -> Ints:
    """The call that made each launch.

    Args:
        trace: any trace.

    Returns:
        Shape (launches,): row in ``trace.calls``, NO_CALL where there is none. If a process used a
        correlation twice, the call that began first.
    """
    launches, calls = trace.launches, trace.calls
    found = np.full(len(launches), NO_CALL, np.int64)
    called = np.flatnonzero(calls.correlation != 0)
    if not len(called) or not len(launches):
        return found
    called = called[np.argsort(calls.start_ns[called], kind="stable")]
    wanted, offered = _join_keys(
        (launches.process, launches.correlation), (calls.process[called], calls.correlation[called])
    )
    order = np.argsort(offered, kind="stable")
    called, offered = called[order], offered[order]
    del order
    at = np.minimum(np.searchsorted(offered, wanted), len(offered) - 1)
    matches = (offered[at] == wanted) & (launches.correlation != 0)
    found[matches] = called[at[matches]]
    return found


def find_nodes(trace: Trace) -> Ints:
    """The graph node that each launch is a run of.

    Args:
        trace: any trace.

    Returns:
        Shape (launches,): row in ``trace.nodes``, -1 where there is none.
    """
    launches, nodes = trace.launches, trace.nodes
    found = np.full(len(launches), -1, np.int64)
    replayed = np.flatnonzero(launches.graph_node != 0)
    if not len(replayed) or not len(nodes):
        return found
    wanted, offered = _join_keys(
        (launches.process[replayed], launches.graph_node[replayed]), (nodes.process, nodes.node)
    )
    order = np.argsort(offered, kind="stable")
    at = np.minimum(np.searchsorted(offered[order], wanted), len(offered) - 1)
    matches = offered[order[at]] == wanted
    found[replayed[matches]] = order[at[matches]]
    return found


def is_process_wide(trace: Trace, rows: Ints) -> Flags:
    """Whether ranges take the calls of every thread of their process.

    Args:
        trace: the trace.
        rows: shape (ranges,), rows of ``trace.ranges``.
    """
    own = trace.strings.index(OWN_DOMAIN) if OWN_DOMAIN in trace.strings else -1
    wide: Flags = (trace.ranges.domain[rows] == own) | (trace.ranges.thread[rows] == ANY_THREAD)
    return wide


def attribute(trace: Trace, rows: Ints, process: Ints, thread: Ints, time_ns: Ints) -> Membership:
    """Attribute events on the host to ranges.

    Args:
        trace: the trace that holds the ranges.
        rows: shape (ranges,), rows of ``trace.ranges`` in question.
        process: shape (events,), where each event happened.
        thread: shape (events,).
        time_ns: shape (events,), when it began.

    Returns:
        Events by ranges; the numbers of the ranges are positions in ``rows``.
    """
    ranges, wide = trace.ranges, is_process_wide(trace, rows)
    by_process = _Windows.of(ranges, rows, process, time_ns)
    wide_low, wide_high = by_process.low, by_process.high
    covered = by_process.coverage(wide)
    if wide.all():
        nothing = np.zeros_like(wide_low)
        return Membership(
            by_process.order,
            np.column_stack([wide_low, nothing]),
            np.column_stack([wide_high, nothing]),
            covered,
        )
    by_thread = _Windows.of(ranges, rows, process, time_ns, thread)
    claimed = by_thread.coverage(~wide)
    free = np.flatnonzero(~claimed)
    by_free = _Windows.of(ranges, rows, process[free], time_ns[free])
    covered |= claimed
    covered[free] |= by_free.coverage(~wide)
    offset = len(by_process.order)
    behind = offset + len(by_thread.order)
    return Membership(
        np.concatenate([by_process.order, by_thread.order, free[by_free.order]]),
        np.column_stack(
            [np.where(wide, wide_low, by_thread.low + offset), np.where(wide, 0, by_free.low + behind)]
        ),
        np.column_stack(
            [np.where(wide, wide_high, by_thread.high + offset), np.where(wide, 0, by_free.high + behind)]
        ),
        covered,
    )


@dataclass(frozen=True, slots=True)
class _Windows:
    """Events in order of (place, time), and the slice of them that each range's window holds."""

    order: Ints
    low: Ints
    high: Ints

    @classmethod
    def of(cls, ranges: Ranges, rows: Ints, process: Ints, time_ns: Ints, thread: Ints | None = None) -> _Windows:
        """Sort the events and search each range's window, by process or by process and thread."""
        start, end = ranges.start_ns[rows], ranges.end_ns[rows]
        at, where = process, ranges.process[rows]
        if thread is not None:
            at, where = _join_keys((process, thread), (where, ranges.thread[rows]))
        # A range that ends before it starts must come out empty, not as a slice of negative length.
        bounds = np.concatenate([start, np.maximum(start, end)])
        events, edges = _join_keys((at, time_ns), (np.concatenate([where, where]), bounds))
        order = np.argsort(events, kind="stable")
        found = np.searchsorted(events[order], edges)
        return cls(order, found[: len(rows)], found[len(rows) :])

    def coverage(self, chosen: Flags) -> Flags:
        """Whether each event lies in any of the chosen ranges, shape (events,)."""
        steps = np.zeros(len(self.order) + 1, np.int64)
        np.add.at(steps, self.low[chosen], 1)
        np.add.at(steps, self.high[chosen], -1)
        covered = np.empty(len(self.order), np.bool_)
        covered[self.order] = np.cumsum(steps)[:-1] > 0
        return covered


def _join_keys(left: tuple[Ints, Ints], right: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Pairs (major, minor) of two tables as single integers, ordered and equal exactly as the pairs are."""
    if _is_one_value(left[0], right[0]):
        # Mostly there is one process: its number tells nothing, and arrays of it would fill memory.
        return left[1], right[1]
    left_major, right_major, majors = _rank(left[0], right[0])
    left_minor, right_minor = left[1], right[1]
    extremes = [bound for minor in (left_minor, right_minor) if len(minor) for bound in (minor.min(), minor.max())]
    lowest, span = int(min(extremes)), int(max(extremes)) - int(min(extremes)) + 1
    if majors * span >= 2**62:
        left_minor, right_minor, span = _rank(left_minor, right_minor)
        lowest = 0
    return left_major * span + (left_minor - lowest), right_major * span + (right_minor - lowest)


def _is_one_value(*columns: Ints) -> bool:
    """Whether all values of all columns are the same."""
    filled = [column for column in columns if len(column)]
    return all(bool((column == filled[0][0]).all()) for column in filled)


def _rank(left: Ints, right: Ints) -> tuple[Ints, Ints, int]:
    """The values of two arrays as their ranks among all values, and the number of ranks."""
    both = np.concatenate([left, right]).astype(np.int64, copy=False)
    values, ranks = np.unique(both, return_inverse=True)
    return ranks[: len(left)], ranks[len(left) :], len(values)
