"""Which launches belong to which ranges.

A launch belongs to a range when the API call that made it begins inside the range's window on the host, in the same
process. The time and place of the work on the device do not matter. The range decides which threads count:

* A range of the project's own domain, or one bound to no thread, takes the calls of every thread: a process runs
  one round at a time, and autograd launches the backward pass from its own threads.
* Any other range takes the calls of its own thread, and those of helper threads: threads that have no such range
  around the call, or whose ranges around the call all lie inside the window.

The method is one sort of the calls by time and three binary searches a range, so its cost does not depend on how
ranges nest or repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.model.sorted_keys import join_keys
from pytest_nsight.model.trace import ANY_THREAD, OWN_DOMAIN, Flags, Ints, Ranges, Trace
from pytest_nsight.trace.helper_threads import find_helped_calls

NO_CALL = -1


@dataclass(frozen=True, slots=True)
class Membership:
    """Which events lie in which ranges, without listing the pairs.

    Attributes:
        order: event numbers, sorted so that the events of a range are a few slices.
        low: shape (ranges, slices), first index into ``order`` of each slice.
        high: shape (ranges, slices), one past its last.
        covered: shape (events,), whether an event lies in any range.
        helped: shape (ranges,), number of events of each that a helper thread made inside ranges of its own.
    """

    order: Ints
    low: Ints
    high: Ints
    covered: Flags
    helped: Ints

    def sum_of(self, values: Ints) -> Ints:
        """The sum of a value of each event by range, shape (ranges,); exact.

        Args:
            values: shape (events,).
        """
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(values[self.order])])
        sums: Ints = (running[self.high] - running[self.low]).sum(axis=1)
        return sums

    def latest_of(self, values: Ints, otherwise: Ints) -> Ints:
        """The largest value of the events of each range, shape (ranges,).

        Args:
            values: shape (events,).
            otherwise: shape (ranges,), the result where it is larger, or where a range has no event.
        """
        latest: Ints = otherwise.copy()
        padded = np.append(values[self.order], np.iinfo(np.int64).min)
        for column in range(self.low.shape[1]):
            rows = np.flatnonzero(self.high[:, column] > self.low[:, column])
            if len(rows):
                edges = np.column_stack([self.low[rows, column], self.high[rows, column]]).ravel()
                latest[rows] = np.maximum(latest[rows], np.maximum.reduceat(padded, edges)[::2])
        return latest

    def among(self, ranges: Ints) -> Ints:
        """The events that lie in any of some ranges, ascending.

        Args:
            ranges: shape (chosen,), their numbers.
        """
        edges = np.zeros(len(self.order) + 1, np.int64)
        np.add.at(edges, self.low[ranges].ravel(), 1)
        np.add.at(edges, self.high[ranges].ravel(), -1)
        # An event may lie in one range by its thread, and in another by its process.
        is_inside = np.zeros(len(self.covered), np.bool_)
        is_inside[self.order[np.cumsum(edges)[:-1] > 0]] = True
        return np.flatnonzero(is_inside)

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
        return slices // self.low.shape[1], self.order[low[slices] + position]


def find_calls(trace: Trace) -> Ints:
    """The call that made each launch.

    Args:
        trace: any trace.

    Returns:
        Shape (launches,): row in ``trace.calls``, NO_CALL where there is none. If a process used a
        correlation twice, the call that began first.
    """
    return match_calls(trace, trace.launches.process, trace.launches.correlation)


def match_calls(trace: Trace, process: Ints, correlation: Ints) -> Ints:
    """The call that made each of some events, as in find_calls.

    Args:
        trace: any trace.
        process: shape (events,).
        correlation: shape (events,), 0 where unknown.
    """
    calls = trace.calls
    found = np.full(len(process), NO_CALL, np.int64)
    called = np.flatnonzero(calls.correlation != 0)
    if not len(called) or not len(process):
        return found
    called = called[np.argsort(calls.start_ns[called], kind="stable")]
    wanted, offered = join_keys((process, correlation), (calls.process[called], calls.correlation[called]))
    order = np.argsort(offered, kind="stable")
    called, offered = called[order], offered[order]
    del order
    at = np.minimum(np.searchsorted(offered, wanted), len(offered) - 1)
    matches = (offered[at] == wanted) & (correlation != 0)
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
    wanted, offered = join_keys(
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
    covered = by_process.coverage(wide)
    if wide.all():
        none_helped = np.zeros(len(rows), np.int64)
        return Membership(by_process.order, by_process.low[:, None], by_process.high[:, None], covered, none_helped)
    by_thread = _Windows.of(ranges, rows, process, time_ns, thread)
    claimed = by_thread.coverage(~wide)
    free, inside = np.flatnonzero(~claimed), np.flatnonzero(claimed)
    by_free = _Windows.of(ranges, rows, process[free], time_ns[free])
    covered |= claimed
    covered[free] |= by_free.coverage(~wide)
    narrow = np.flatnonzero(~wide)
    helped = find_helped_calls(ranges, rows[narrow], (process[inside], thread[inside]), time_ns[inside])
    by_helper = _Windows(helped.order, _scatter(helped.low, narrow, wide), _scatter(helped.high, narrow, wide))
    return _join(
        (
            by_process.limit(wide),
            by_thread.limit(~wide),
            by_free.renumber(free).limit(~wide),
            by_helper.renumber(inside),
        ),
        covered,
    )


def _scatter(values: Ints, positions: Ints, like: Flags) -> Ints:
    """Zeros, and the values at some positions."""
    spread = np.zeros(len(like), np.int64)
    spread[positions] = values
    return spread


def _join(parts: Sequence[_Windows], covered: Flags) -> Membership:
    """One membership of the slices of all parts; the last part is that of helper threads."""
    before = np.cumsum([0, *(len(part.order) for part in parts)])[:-1]
    return Membership(
        np.concatenate([part.order for part in parts]),
        np.column_stack([part.low + offset for part, offset in zip(parts, before, strict=True)]),
        np.column_stack([part.high + offset for part, offset in zip(parts, before, strict=True)]),
        covered,
        parts[-1].high - parts[-1].low,
    )


@dataclass(frozen=True, slots=True)
class _Windows:
    """Events in order of (place, time), and the slice of them that each range's window holds."""

    order: Ints
    low: Ints
    high: Ints

    @classmethod
    def of(cls, ranges: Ranges, rows: Ints, process: Ints, time_ns: Ints, thread: Ints | None = None) -> _Windows:
        """Sorts the events and search each range's window, by process or by process and thread."""
        start, end = ranges.start_ns[rows], ranges.end_ns[rows]
        at, where = process, ranges.process[rows]
        if thread is not None:
            at, where = join_keys((process, thread), (where, ranges.thread[rows]))
        # A range that ends before it starts must come out empty, not as a slice of negative length.
        bounds = np.concatenate([start, np.maximum(start, end)])
        events, edges = join_keys((at, time_ns), (np.concatenate([where, where]), bounds))
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

    def limit(self, chosen: Flags) -> _Windows:
        """The slices of the chosen ranges; the others have empty ones."""
        return _Windows(self.order, np.where(chosen, self.low, 0), np.where(chosen, self.high, 0))

    def renumber(self, events: Ints) -> _Windows:
        """The same slices with the numbers of the events, where only some events were searched."""
        return _Windows(events[self.order], self.low, self.high)
