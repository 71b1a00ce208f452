"""How kernel time divides: by category and length, by the device that is used, by the pages that move. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.categories import COMMUNICATION
from pytest_nsight.analysis.intervals import TimeSet
from pytest_nsight.analysis.timeline import Timeline
from pytest_nsight.model.trace import Ints, Trace
from pytest_nsight.model.trace_devices import TraceDevice
from pytest_nsight.trace.launch_table import LaunchDetails

TINY_NS = 5_000
"""A kernel shorter than this is mostly start and end."""
_INSIDE = "memcpy DtoD"


@dataclass(frozen=True, slots=True)
class KernelMix:
    """How the kernel time divides.

    Attributes:
        total_ns: all kernel time.
        tiny_ns: time in kernels shorter than TINY_NS.
        by_category: category -> time.
        unfilled_ns: time during which all kernels of the device together have blocks for less than half of its
            multiprocessors; 0 where the recording does not say how many it has.
        migrating_ns: time during which pages of managed memory move to or from the device.
        copying_ns: time of kernels that compute, during which a copy runs as well.
        communicating_ns: likewise, a kernel that communicates.
        graph_ns: time of CUDA graphs that are recorded whole, without their kernels.
        copied_ns: time of copies, which is no kernel time.
        copied_inside_ns: part of it in copies from a device to itself.
    """

    total_ns: int
    tiny_ns: int
    by_category: Mapping[str, int]
    unfilled_ns: int = 0
    migrating_ns: int = 0
    copying_ns: int = 0
    communicating_ns: int = 0
    graph_ns: int = 0
    copied_ns: int = 0
    copied_inside_ns: int = 0

    def share(self, part_ns: int) -> float:
        """A part of the kernel time as a ratio."""
        return part_ns / self.total_ns if self.total_ns else 0.0

    def share_of_computing(self, part_ns: int) -> float:
        """A part of the time of the kernels that compute as a ratio."""
        computing_ns = self.total_ns - self.by_category.get(COMMUNICATION, 0)
        return part_ns / computing_ns if computing_ns else 0.0


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """What is known of the time of each launch, shape (launches,) each; 0 for copies, but for two.

    Attributes:
        duration_ns: length of the kernel.
        unfilled_ns: part of it as in `KernelMix`.
        migrating_ns: likewise.
        copying_ns: likewise.
        communicating_ns: likewise.
        graph_ns: likewise.
        copied_ns: length of the copy, 0 for others and for sets.
        copied_inside_ns: likewise, from a device to itself.
        category: index into ``categories``.
        categories: the distinct ones.
    """

    duration_ns: Ints
    unfilled_ns: Ints
    migrating_ns: Ints
    copying_ns: Ints
    communicating_ns: Ints
    graph_ns: Ints
    copied_ns: Ints
    copied_inside_ns: Ints
    category: Ints
    categories: tuple[str, ...]

    @classmethod
    def of(cls, trace: Trace, details: LaunchDetails, timeline: Timeline, categories: Sequence[str]) -> KernelTimes:
        """The times of all launches.

        Args:
            trace: the trace.
            details: of its launches.
            timeline: of its devices.
            categories: of each shape.
        """
        launches, axis = trace.launches, timeline.axis
        duration_ns = np.where(details.is_compute, details.duration_ns, 0)
        start = axis.place(timeline.device, launches.start_ns)
        end = axis.place(timeline.device, launches.start_ns + duration_ns)
        names = {category: number for number, category in enumerate(dict.fromkeys(categories))}
        of_shape = np.array([names[category] for category in categories], np.int64)
        are_graphs = np.array([shape.kind == "graph" for shape in trace.shapes], np.bool_)
        are_inside = np.array([shape.name == _INSIDE for shape in trace.shapes], np.bool_)
        copied_ns = np.where(details.is_compute | timeline.sets, 0, details.duration_ns)

        def cover(times: TimeSet) -> Ints:
            return times.covered(start, end) if len(times.start) else np.zeros(len(launches), np.int64)

        computes = details.is_compute & ~timeline.communicates
        moving, communicating = timeline.find_moves(trace, details)
        return cls(
            duration_ns=duration_ns,
            unfilled_ns=cover(_find_unfilled(trace, timeline, start, end)),
            migrating_ns=cover(_find_migrations(trace, timeline)),
            copying_ns=np.where(computes, cover(moving), 0),
            communicating_ns=np.where(computes, cover(communicating), 0),
            graph_ns=np.where(are_graphs[launches.shape], duration_ns, 0),
            copied_ns=copied_ns,
            copied_inside_ns=np.where(are_inside[launches.shape], copied_ns, 0),
            category=of_shape[launches.shape],
            categories=tuple(names),
        )

    def mix(self, rows: Ints) -> KernelMix:
        """How the kernel time of some launches divides.

        Args:
            rows: shape (chosen,), rows of ``Trace.launches``.
        """
        duration_ns = self.duration_ns[rows]
        totals = np.zeros(len(self.categories), np.int64)
        np.add.at(totals, self.category[rows], duration_ns)
        return KernelMix(
            total_ns=int(duration_ns.sum()),
            tiny_ns=int(duration_ns[duration_ns < TINY_NS].sum()),
            by_category={name: time for name, time in zip(self.categories, totals.tolist(), strict=True) if time},
            unfilled_ns=int(self.unfilled_ns[rows].sum()),
            migrating_ns=int(self.migrating_ns[rows].sum()),
            copying_ns=int(self.copying_ns[rows].sum()),
            communicating_ns=int(self.communicating_ns[rows].sum()),
            graph_ns=int(self.graph_ns[rows].sum()),
            copied_ns=int(self.copied_ns[rows].sum()),
            copied_inside_ns=int(self.copied_inside_ns[rows].sum()),
        )


def _find_migrations(trace: Trace, timeline: Timeline) -> TimeSet:
    """When pages of managed memory move."""
    moves = np.array([shape.is_migration for shape in trace.shapes] or [False], np.bool_)
    rows = np.flatnonzero(moves[trace.launches.shape])
    launches = trace.launches
    return TimeSet.union(timeline.axis, timeline.device[rows], launches.start_ns[rows], launches.end_ns[rows])


def _find_unfilled(trace: Trace, timeline: Timeline, start: Ints, end: Ints) -> TimeSet:
    """When kernels run, and have blocks for less than half of the multiprocessors, all that run together.

    Args:
        trace: the trace.
        timeline: of its devices.
        start: shape (launches,), start of each launch on the axis of the timeline.
        end: likewise; copies have no length.
    """
    counts = np.array([_count_multiprocessors(trace, one) for one in timeline.devices] or [0], np.int64)
    # Without a grid nothing is known: what a graph that is traced whole launches may fill the device.
    grids = [math.prod(shape.grid) for shape in trace.shapes] or [0]
    blocks = np.array([float(grid) if grid > 0 else np.inf for grid in grids])
    most = counts[timeline.device] if len(start) else start
    own = np.minimum(blocks[trace.launches.shape], most).astype(np.int64)
    rows = np.flatnonzero((end > start) & (most > 0))
    if not (2 * own[rows] < most[rows]).any():
        return TimeSet(timeline.axis, start[:0], start[:0])
    at = np.concatenate([start[rows], end[rows]])
    order = np.argsort(at, kind="stable")
    at = at[order]
    resident = np.cumsum(np.concatenate([own[rows], -own[rows]])[order])
    is_unfilled = (resident[:-1] > 0) & (2 * resident[:-1] < np.tile(most[rows], 2)[order][:-1])
    is_unfilled &= at[1:] > at[:-1]
    return TimeSet(timeline.axis, at[:-1][is_unfilled], at[1:][is_unfilled])


def _count_multiprocessors(trace: Trace, device: TraceDevice) -> int:
    """Multiprocessors of a device; where it may be any of several boards, only a number that they share."""
    if device.multiprocessors:
        return device.multiprocessors
    counts = {one.multiprocessors for one in trace.devices if device.name in ("", one.name)}
    return counts.pop() if len(counts) == 1 else 0
