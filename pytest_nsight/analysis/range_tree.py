"""The ranges of a trace as a tree: what each named part of the program took, and its share of its parent. Pure.

Ranges with the same path of labels are one node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.display_names import DomainName, label_names
from pytest_nsight.model.sorted_keys import rank_values
from pytest_nsight.model.trace import ANY_THREAD, Flags, Ints, Trace
from pytest_nsight.trace.attribution import Membership, attribute
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.nesting import NO_PARENT, find_enclosing, nest

OUTSIDE = ""
"""Stands for the label where no range is open."""


@dataclass(frozen=True, slots=True)
class RangeNode:
    """All ranges with one path.

    Attributes:
        path: names from the outermost range to this one.
        count: number of ranges.
        wall_ns: sum of their lengths on the host.
        kernel_ns: sum of the kernels, graphs and operators that they launched.
        copy_ns: sum of the copies and sets that they launched.
        launches: number of kernels, graphs and operators.
        copies: number of copies and sets.
        sync_ns: host time in calls that wait, for the device or for a copy.
        share: of the parent's device time, or of its wall time where the parent has no device time. An outermost
            node's is the share of all device time.
    """

    path: tuple[str, ...]
    count: int
    wall_ns: int
    kernel_ns: int
    copy_ns: int
    launches: int
    copies: int
    sync_ns: int
    share: float

    @property
    def device_ns(self) -> int:
        """Kernels and copies together."""
        return self.kernel_ns + self.copy_ns


@dataclass(frozen=True, slots=True)
class RangeCosts:
    """What each range launched, shape (ranges,) each, in the order of the rows asked for."""

    kernel_ns: Ints
    copy_ns: Ints
    launches: Ints
    copies: Ints
    sync_ns: Ints
    last_ns: Ints
    """When the last of its launches ended, or the range itself."""
    is_inside: Flags
    """Shape (launches,): whether each launch of the trace belongs to a range."""
    placed: Ints
    """Rows of the launches whose call is known."""
    members: Membership
    """Which of ``placed`` belong to which range."""
    calling: Ints
    """Rows of the calls that wait."""
    waiting: Membership
    """Which of ``calling`` belong to which range."""


def cost_ranges(trace: Trace, details: LaunchDetails, waits: Flags, rows: Ints) -> RangeCosts:
    """Sums over the launches of each range; a launch counts for every range that it belongs to.

    Args:
        trace: the trace.
        details: of its launches.
        waits: shape (calls,), in which calls the host waits.
        rows: shape (ranges,), rows of ``trace.ranges``.
    """
    launches, calls = trace.launches, trace.calls
    placed = np.flatnonzero(details.is_placed)
    members = attribute(trace, rows, launches.process[placed], *details.origin(trace, placed))
    is_inside = np.zeros(len(launches), np.bool_)
    is_inside[placed] = members.covered
    is_compute, duration_ns = details.is_compute[placed], details.duration_ns[placed]
    calling = np.flatnonzero(waits)
    waiting = attribute(trace, rows, calls.process[calling], calls.thread[calling], calls.start_ns[calling])
    return RangeCosts(
        kernel_ns=members.sum_of(duration_ns * is_compute),
        copy_ns=members.sum_of(duration_ns * ~is_compute),
        launches=members.sum_of(is_compute.astype(np.int64)),
        copies=members.sum_of((~is_compute).astype(np.int64)),
        sync_ns=waiting.sum_of(np.maximum(calls.end_ns - calls.start_ns, 0)[calling]),
        last_ns=members.latest_of(launches.end_ns[placed], trace.ranges.end_ns[rows]),
        is_inside=is_inside,
        placed=placed,
        members=members,
        calling=calling,
        waiting=waiting,
    )


def list_names(trace: Trace, rows: Ints) -> tuple[list[DomainName], Ints]:
    """The distinct domains and names of some ranges, sorted by their numbers, and the index of each range's.

    Args:
        trace: the trace.
        rows: shape (ranges,), rows of ``trace.ranges``.
    """
    ranges, strings = trace.ranges, trace.strings
    size = max(len(strings), 1)
    pairs, codes = rank_values(ranges.domain[rows].astype(np.int64) * size + ranges.name[rows])
    return [(strings[pair // size], strings[pair % size]) for pair in pairs.tolist()], codes


@dataclass(frozen=True, slots=True)
class RangeTable:
    """Some ranges of a trace with their costs, their parents and their labels.

    Attributes:
        rows: shape (ranges,), rows of ``trace.ranges``.
        costs: of each range.
        parent: shape (ranges,), position in ``rows`` of the enclosing range, NO_PARENT for an outermost one.
        label: shape (ranges,), index into ``labels``.
        labels: what the ranges are called, without numbers that only count.
    """

    rows: Ints
    costs: RangeCosts
    parent: Ints
    label: Ints
    labels: tuple[str, ...]

    @classmethod
    def of(
        cls,
        trace: Trace,
        details: LaunchDetails,
        waits: Flags,
        rows: Ints,
        labels: Mapping[DomainName, str] | None = None,
    ) -> RangeTable:
        """The table of some ranges.

        Args:
            trace: the trace.
            details: of its launches.
            waits: shape (calls,), in which calls the host waits.
            rows: shape (ranges,), rows of ``trace.ranges``.
            labels: of each name; None makes them of these ranges alone.
        """
        costs, parent = cost_ranges(trace, details, waits, rows), find_parents(trace, rows)
        names, codes = list_names(trace, rows)
        label_of = label_names(names) if labels is None else labels
        numbers: dict[str, int] = {}
        number_of = [numbers.setdefault(label_of[name], len(numbers)) for name in names]
        return cls(rows, costs, parent, np.asarray(number_of, np.int64)[codes], tuple(numbers))


def build_tree(trace: Trace, details: LaunchDetails, table: RangeTable) -> tuple[RangeNode, ...]:
    """The nodes in preorder, siblings with the most device time first, then those with the most wall time.

    Args:
        trace: the trace.
        details: of its launches.
        table: the ranges that make the tree.
    """
    rows, costs, ranges = table.rows, table.costs, trace.ranges
    if not len(rows):
        return ()
    node, parents, names = _number_nodes(table.parent, table.label)
    wall_ns = np.maximum(ranges.end_ns[rows] - ranges.start_ns[rows], 0)
    columns = (wall_ns, costs.kernel_ns, costs.copy_ns, costs.launches, costs.copies, costs.sync_ns)
    sums = np.zeros((len(parents), len(columns)), np.int64)
    np.add.at(sums, node, np.column_stack(columns))
    counts = np.bincount(node, minlength=len(parents)).tolist()
    whole_ns = int(details.duration_ns.sum())
    return _order(parents, [table.labels[name] for name in names], counts, sums, whole_ns)


def find_parents(trace: Trace, rows: Ints) -> Ints:
    """The range that encloses each range, as a position in ``rows``; NO_PARENT for an outermost one.

    An outermost range of a thread lies in the innermost range of another thread that encloses it, if there is one.
    A range that never ended encloses whatever begins after it.

    Args:
        trace: the trace.
        rows: shape (ranges,), rows of ``trace.ranges``.
    """
    ranges = trace.ranges
    process, thread, end_ns = ranges.process[rows], ranges.thread[rows], ranges.end_ns[rows]
    # What ends with the recording ends before it: only what ends later encloses a range of another thread.
    nesting = nest((process, thread), ranges.start_ns[rows], end_ns + ranges.is_open[rows])
    position = nesting.parent.copy()
    first = nesting.order[nesting.bounds[:-1]]
    roots = np.flatnonzero(nesting.parent == NO_PARENT)
    owner = process[first][nesting.thread[roots]]
    latest_ns = np.full(len(roots), np.iinfo(np.int64).min)
    for number, row in enumerate(first.tolist()):
        if len(first) == 1 or thread[row] == ANY_THREAD:
            continue
        others = np.flatnonzero((nesting.thread[roots] != number) & (owner == process[row]))
        inside = roots[others]
        found = find_enclosing(nesting, number, nesting.start_ns[inside], end_ns[nesting.order[inside]])
        inner = (found != NO_PARENT) & (nesting.start_ns[found] > latest_ns[others])
        position[roots[others[inner]]] = found[inner]
        latest_ns[others[inner]] = nesting.start_ns[found[inner]]
    parent = np.full(len(rows), NO_PARENT, np.int64)
    has_parent = position != NO_PARENT
    parent[nesting.order[has_parent]] = nesting.order[position[has_parent]]
    return parent


def _number_nodes(parent: Ints, label: Ints) -> tuple[Ints, list[int], list[int]]:
    """The node of each range; the parent and the label of each node. Parents have smaller numbers."""
    node = np.full(len(parent), NO_PARENT, np.int64)
    parents: list[int] = []
    names: list[int] = []
    labels = int(label.max(initial=0)) + 1
    level = np.flatnonzero(parent == NO_PARENT)
    waiting = np.flatnonzero(parent != NO_PARENT)
    while len(level):
        above = np.where(parent[level] == NO_PARENT, NO_PARENT, node[parent[level]])
        keys, codes = rank_values((above + 1) * labels + label[level])
        node[level] = len(parents) + codes
        parents += (keys // labels - 1).tolist()
        names += (keys % labels).tolist()
        is_next = node[parent[waiting]] != NO_PARENT
        level, waiting = waiting[is_next], waiting[~is_next]
    return node, parents, names


def _order(
    parents: Sequence[int], names: Sequence[str], counts: Sequence[int], sums: Ints, whole_ns: int
) -> tuple[RangeNode, ...]:
    children: dict[int, list[int]] = {}
    for number, parent in enumerate(parents):
        children.setdefault(parent, []).append(number)
    device_ns = (sums[:, 1] + sums[:, 2]).tolist()
    wall_ns = sums[:, 0].tolist()
    nodes: list[RangeNode] = []
    stack: list[tuple[int, tuple[str, ...]]] = []

    def push(parent: int, path: tuple[str, ...]) -> None:
        own = sorted(children.get(parent, ()), key=lambda one: (device_ns[one], wall_ns[one]))
        stack.extend((number, path) for number in own)

    push(NO_PARENT, ())
    while stack:
        number, path = stack.pop()
        above, own = (whole_ns, device_ns[number])
        if parents[number] != NO_PARENT:
            above = device_ns[parents[number]]
        if not above:
            own = wall_ns[number]
            siblings = children[NO_PARENT]
            above = wall_ns[parents[number]] if parents[number] != NO_PARENT else sum(wall_ns[s] for s in siblings)
        here = (*path, names[number])
        wall, kernel, copy, launches, copies, sync = sums[number].tolist()
        share = own / above if above else 0.0
        nodes.append(RangeNode(here, counts[number], wall, kernel, copy, launches, copies, sync, share))
        push(number, here)
    return tuple(nodes)
