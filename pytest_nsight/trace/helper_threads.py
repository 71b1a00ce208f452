"""Calls that a helper thread made on behalf of a range of another thread. Pure.

Autograd runs the backward pass on its own threads, and opens ranges there (``torch.autograd.profiler.emit_nvtx``).
Such a call counts for a range of another thread if the whole stretch of ranges around the call lies inside it. Two
threads that work side by side open and close their ranges independently, so their stretches lie across one another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_nsight.model.sorted_keys import join_keys
from pytest_nsight.model.trace import Ints, Ranges
from pytest_nsight.trace.nesting import NO_PARENT, Nesting, find_enclosing, nest


@dataclass(frozen=True, slots=True)
class HelpedCalls:
    """The calls of helper threads by the ranges that they count for.

    Attributes:
        order: positions of the calls, sorted so that the calls of a range are one slice.
        low: shape (ranges,), first index into ``order``.
        high: shape (ranges,), one past the last.
    """

    order: Ints
    low: Ints
    high: Ints


@dataclass(frozen=True, slots=True)
class _Stretches:
    """The times during which a thread is inside any of its ranges, shape (stretches,) each."""

    thread: Ints
    start_ns: Ints
    end_ns: Ints


def find_helped_calls(ranges: Ranges, rows: Ints, place: tuple[Ints, Ints], time_ns: Ints) -> HelpedCalls:
    """The calls whose stretch of ranges lies strictly inside a range of another thread.

    Args:
        ranges: the table.
        rows: shape (ranges,), the rows in question, all bound to a thread.
        place: process and thread of each call, shape (calls,) each. A range of that thread encloses the call.
        time_ns: shape (calls,), when each began.
    """
    low, high = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    has_length = np.flatnonzero(ranges.end_ns[rows] > ranges.start_ns[rows])
    chosen = rows[has_length]
    process, thread = ranges.process[chosen], ranges.thread[chosen]
    nesting = nest((process, thread), ranges.start_ns[chosen], ranges.end_ns[chosen])
    if len(nesting.bounds) <= 2 or not len(time_ns):
        return HelpedCalls(np.empty(0, np.int64), low, high)
    first = nesting.order[nesting.bounds[:-1]]
    number = _number_threads((process[first], thread[first]), place)
    stretches = _find_stretches(nesting)
    begins, at = join_keys((stretches.thread, stretches.start_ns), (number, time_ns))
    stretch = np.searchsorted(begins, at, side="right") - 1
    position, helped = _find_hosts(nesting, process[first], stretches)
    position, call = _expand(position, helped, stretch, len(stretches.thread))
    order = np.argsort(position, kind="stable")
    # Preorder puts everything inside a range right behind it, so the calls inside it are one slice.
    low[has_length[nesting.order]] = np.searchsorted(position[order], np.arange(len(chosen)))
    high[has_length[nesting.order]] = np.searchsorted(position[order], nesting.last)
    return HelpedCalls(call[order], low, high)


def _number_threads(known: tuple[Ints, Ints], place: tuple[Ints, Ints]) -> Ints:
    """The number of each call's thread, as the nesting numbers them."""
    threads, wanted = join_keys(known, place)
    return np.searchsorted(threads, wanted)


def _find_stretches(nesting: Nesting) -> _Stretches:
    starts, ends = join_keys((nesting.thread, nesting.start_ns), (nesting.thread, nesting.end_ns))
    reached = np.maximum.accumulate(ends)
    is_first = np.ones(len(starts), np.bool_)
    is_first[1:] = (starts[1:] >= reached[:-1]) | (nesting.thread[1:] != nesting.thread[:-1])
    first = np.flatnonzero(is_first)
    end_ns = np.maximum.reduceat(nesting.end_ns, first)
    return _Stretches(nesting.thread[first], nesting.start_ns[first], end_ns)


def _find_hosts(nesting: Nesting, process: Ints, stretches: _Stretches) -> tuple[Ints, Ints]:
    """Pairs of a range, by its position in preorder, and a stretch of another thread directly inside it."""
    positions, helped = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    owner = process[stretches.thread]
    for thread in range(len(process)):
        low, high = int(nesting.bounds[thread]), int(nesting.bounds[thread + 1])
        begin_ns, end_ns = nesting.start_ns[low], nesting.end_ns[low:high].max()
        is_near = (stretches.start_ns > begin_ns) & (stretches.end_ns < end_ns)
        candidates = np.flatnonzero(is_near & (stretches.thread != thread) & (owner == process[thread]))
        found = find_enclosing(nesting, thread, stretches.start_ns[candidates], stretches.end_ns[candidates])
        positions.append(found[found != NO_PARENT])
        helped.append(candidates[found != NO_PARENT])
    return np.concatenate(positions), np.concatenate(helped)


def _expand(position: Ints, helped: Ints, stretch: Ints, stretches: int) -> tuple[Ints, Ints]:
    """Pairs of a range and a call, from pairs of a range and a stretch."""
    by_stretch = np.argsort(stretch, kind="stable")
    edges = np.searchsorted(stretch[by_stretch], np.arange(stretches + 1))
    counts = edges[helped + 1] - edges[helped]
    pair = np.repeat(np.arange(len(helped)), counts)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
    return position[pair], by_stretch[edges[helped][pair] + within]
