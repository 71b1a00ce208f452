"""What the kernel time of ranges divides into: forward, backward and optimizer, training and inference. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.range_tree import RangeTable
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.nesting import NO_PARENT

_MOST = 16
"""Labels that have a row: those with the most kernel time."""

FEWEST_REPETITIONS = 5
"""Ranges with one label that are this many are repetitions of one thing."""


@dataclass(frozen=True, slots=True)
class RangeMix:
    """The kernel time of the ranges with one label.

    Attributes:
        label: what the ranges are called.
        count: number of ranges; one inside another of its label does not count again.
        launches: kernels, graphs and operators in them; one in several of the ranges counts once.
        kernel_ns: sum of those.
        categories: category -> its part of that, the largest first; they add up to it.
    """

    label: str
    count: int
    launches: int
    kernel_ns: int
    categories: Mapping[str, int]

    def share(self, category: str) -> float:
        """Ratio of the kernel time."""
        return self.categories.get(category, 0) / self.kernel_ns if self.kernel_ns else 0.0


def divide_ranges(
    trace: Trace, details: LaunchDetails, table: RangeTable, categories: Sequence[str]
) -> tuple[RangeMix, ...]:
    """Kernel time by category of the ranges with the most of it, the most first.

    Args:
        trace: the trace.
        details: of its launches.
        table: the ranges.
        categories: of each shape.
    """
    outer = find_outermost(table)
    totals = _sum_labels(table, outer, table.costs.kernel_ns)
    chosen = [label for label in np.argsort(-totals, kind="stable")[:_MOST].tolist() if totals[label]]
    names = list(dict.fromkeys(categories))
    of_shape = np.array([names.index(category) for category in categories], np.int64)
    mixes = []
    for label in chosen:
        instances = np.flatnonzero(outer & (table.label == label))
        # Start/end ranges of one label may overlap, so that a launch is in several of them.
        rows = table.costs.placed[table.costs.members.among(instances)]
        rows = rows[details.is_compute[rows]]
        sums = np.zeros(len(names), np.int64)
        np.add.at(sums, of_shape[trace.launches.shape[rows]], details.duration_ns[rows])
        parts = {name: time_ns for name, time_ns in zip(names, sums.tolist(), strict=True) if time_ns}
        ordered = dict(sorted(parts.items(), key=lambda part: -part[1]))
        mixes.append(RangeMix(table.labels[label], len(instances), len(rows), int(sums.sum()), ordered))
    return tuple(sorted(mixes, key=lambda one: -one.kernel_ns))


def find_outermost(table: RangeTable) -> Flags:
    """Which ranges lie in no range of their own label, shape (ranges,)."""
    outer = np.ones(len(table.rows), np.bool_)
    ancestor = table.parent.copy()
    while (ancestor != NO_PARENT).any():
        known = ancestor != NO_PARENT
        outer &= ~known | (table.label[ancestor] != table.label)
        ancestor = np.where(known, table.parent[ancestor], NO_PARENT)
    return outer


def find_leading_labels(table: RangeTable, counts: Ints) -> Flags:
    """Which labels are worth a row of their own, shape (labels,).

    - Those of the outermost ranges.
    - Those of the ranges directly inside these.
    - Those of repeated ranges, however deep, down to what is directly inside a range that is repeated often: steps
      of an epoch of a program, and layers of a step.

    Args:
        table: the ranges.
        counts: shape (labels,), how often each label occurs.
    """
    outer = table.parent == NO_PARENT
    of_range = counts[table.label]
    above = count_above(table.parent, of_range >= FEWEST_REPETITIONS)
    leading = outer | outer[table.parent] | ((of_range > 1) & (above <= 1))
    found = np.zeros(len(table.labels), np.bool_)
    found[table.label[leading]] = True
    return found


def count_above(parent: Ints, flags: Flags) -> Ints:
    """How many of the ranges that enclose each range are flagged; takes log2(depth) passes.

    Args:
        parent: shape (ranges,), position of the enclosing range, NO_PARENT for an outermost one.
        flags: shape (ranges,).
    """
    known = parent != NO_PARENT
    total = np.where(known, flags[parent], 0).astype(np.int64)
    jump = parent.copy()
    while (rows := np.flatnonzero(jump != NO_PARENT)).size:
        total[rows] += total[jump[rows]]
        jump[rows] = jump[jump[rows]]
    return total


def _sum_labels(table: RangeTable, outer: Flags, values: Ints) -> Ints:
    """Exact sums of a value of each outermost range, by label."""
    sums = np.zeros(len(table.labels), np.int64)
    np.add.at(sums, table.label[outer], values[outer])
    return sums
