"""Which range encloses which: the tree that the ranges of each thread form. Pure.

Ranges of one thread are pushed and popped, so two of them either are nested or do not overlap. The functions also
accept ranges that cross, as a damaged export may hold them: such a range counts as a sibling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_nsight.model.sorted_keys import join_keys, rank_groups
from pytest_nsight.model.trace import Flags, Ints

NO_PARENT = -1


@dataclass(frozen=True, slots=True)
class Nesting:
    """The ranges of every thread in preorder: a range, then everything inside it.

    Attributes:
        order: shape (ranges,), the rows in preorder, thread by thread.
        thread: shape (ranges,), number of the thread of each entry of ``order``.
        start_ns: shape (ranges,), in preorder.
        end_ns: shape (ranges,), in preorder, never before the start.
        parent: shape (ranges,), position in ``order`` of the enclosing range, NO_PARENT for an outermost one.
        last: shape (ranges,), one past the position of the last range inside each.
        bounds: shape (threads + 1,), positions where the threads begin.
    """

    order: Ints
    thread: Ints
    start_ns: Ints
    end_ns: Ints
    parent: Ints
    last: Ints
    bounds: Ints


def nest(place: tuple[Ints, Ints], start_ns: Ints, end_ns: Ints) -> Nesting:
    """The tree of ranges.

    Args:
        place: process and thread of each range, shape (ranges,) each.
        start_ns: shape (ranges,).
        end_ns: shape (ranges,).

    Returns:
        The ranges in preorder with their parents. The method needs two sorts, and one binary search for each
        level of nesting.
    """
    end_ns = np.maximum(start_ns, end_ns)
    thread, threads = rank_groups(*place)
    order = np.lexsort((-end_ns, start_ns, thread))
    thread, start_ns, end_ns = thread[order], start_ns[order], end_ns[order]
    ends, starts = join_keys((thread, end_ns), (thread, start_ns))
    # Whatever ended before a range starts does not enclose it. A range without length ends where it starts.
    is_empty = end_ns == start_ns
    closed = np.searchsorted(np.sort(ends[~is_empty]), starts, side="right")
    opened = np.cumsum(~is_empty) - ~is_empty
    depth = np.maximum(opened - closed, 0)
    last = np.maximum(np.searchsorted(starts, ends), np.arange(len(order)) + 1)
    parent = _find_parents(depth, is_empty, thread)
    while len(crossing := np.flatnonzero((parent != NO_PARENT) & (end_ns > end_ns[parent]))):
        parent[crossing] = parent[parent[crossing]]
    return Nesting(
        order=order,
        thread=thread,
        start_ns=start_ns,
        end_ns=end_ns,
        parent=parent,
        last=last,
        bounds=np.searchsorted(thread, np.arange(threads + 1)),
    )


def _find_parents(depth: Ints, is_empty: Flags, thread: Ints) -> Ints:
    """For each range in preorder, the last range before it that is one level up and in its thread."""
    parent = np.full(len(depth), NO_PARENT, np.int64)
    by_depth = np.argsort(depth, kind="stable")
    edges = np.searchsorted(depth[by_depth], np.arange(int(depth.max(initial=-1)) + 2))
    above = np.empty(0, np.int64)
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        rows = by_depth[low:high]
        if len(above):
            found = above[np.maximum(np.searchsorted(above, rows) - 1, 0)]
            fits = (found < rows) & (thread[found] == thread[rows])
            parent[rows[fits]] = found[fits]
        above = rows[~is_empty[rows]]
    return parent


def find_enclosing(nesting: Nesting, thread: int, start_ns: Ints, end_ns: Ints) -> Ints:
    """The innermost range of one thread that begins before and ends after each interval.

    Args:
        nesting: the tree of ranges.
        thread: number of the thread, an index into ``nesting.bounds``.
        start_ns: shape (intervals,).
        end_ns: shape (intervals,).

    Returns:
        Shape (intervals,): positions in ``nesting.order``, NO_PARENT where no range encloses the interval.
    """
    low, high = int(nesting.bounds[thread]), int(nesting.bounds[thread + 1])
    found = low + np.searchsorted(nesting.start_ns[low:high], start_ns) - 1
    found = np.where(found < low, NO_PARENT, found)
    while True:
        outer = np.flatnonzero((found != NO_PARENT) & (nesting.end_ns[found] <= end_ns))
        if not len(outer):
            return found
        found[outer] = nesting.parent[found[outer]]
