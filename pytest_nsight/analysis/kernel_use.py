"""What ran on the devices, by kernel, by launch shape and by category; and the copies. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.display_names import distinguish, keep_namespace
from pytest_nsight.analysis.occupancy import Occupancy, estimate_occupancies
from pytest_nsight.analysis.timeline import Timeline
from pytest_nsight.model.shapes import COMPUTE_KINDS, COPY_KINDS, Shape
from pytest_nsight.model.trace import Ints, Trace

MANAGED = "managed memory"
"""The place of pages that migrate: it is neither side's."""


@dataclass(frozen=True, slots=True)
class ShapeTime:
    """The launches of one kernel with one configuration.

    Attributes:
        shape: what is launched, and how.
        calls: number of launches.
        total_ns: sum of their durations.
        median_ns: median duration.
        registers: of a thread; None where the recording does not hold them.
        shared_bytes: of a block; None where the recording does not hold them.
        occupancies: theoretical, the distinct ones of the boards that it ran on, the lowest first; none where the
            recording does not hold the kernel's resources, or the limits of one of the boards.
    """

    shape: Shape
    calls: int
    total_ns: int
    median_ns: float
    registers: int | None
    shared_bytes: int | None
    occupancies: tuple[Occupancy, ...]


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The launches of one kernel.

    Attributes:
        name: short, and different for each kernel of the table.
        full_name: as the profiler gave it.
        kind: "kernel", "graph" or "operator".
        category: from the rule table.
        calls: number of launches.
        total_ns: sum of their durations.
        median_ns: median duration.
        shapes: by configuration, the longest in total first.
    """

    name: str
    full_name: str
    kind: str
    category: str
    calls: int
    total_ns: int
    median_ns: float
    shapes: tuple[ShapeTime, ...]


@dataclass(frozen=True, slots=True)
class CategoryTime:
    """The kernels of one category.

    Attributes:
        category: from the rule table.
        calls: number of launches.
        total_ns: sum of their durations.
        share: of the kernel time of all categories.
    """

    category: str
    calls: int
    total_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class CopyTime:
    """The copies of one kind and direction, or the sets.

    Attributes:
        name: such as "memcpy HtoD".
        memory: places of the source and the target, such as "pinned to device"; "" for sets.
        count: number of copies.
        total_ns: sum of their durations.
        bytes_moved: by all of them.
        overlapped_ns: part of ``total_ns`` during which a kernel ran on the same device.
        median_ns: median duration.
    """

    name: str
    memory: str
    count: int
    total_ns: int
    bytes_moved: int
    overlapped_ns: int
    median_ns: float

    @property
    def is_set(self) -> bool:
        """Whether memory is set, and nothing is copied."""
        return self.name == "memset"

    @property
    def is_pinned(self) -> bool | None:
        """Whether the host's side is pinned memory; None where no side is of the host, or one is not named."""
        if "pageable" in self.memory:
            return False
        return True if "pinned" in self.memory and "unknown" not in self.memory else None


def tabulate_kernels(trace: Trace, rows: Ints, categories: Sequence[str]) -> tuple[KernelTime, ...]:
    """Kernels, graphs and operators by name, the longest in total first.

    Args:
        trace: the trace.
        rows: shape (launches,), rows of ``trace.launches`` that count.
        categories: category of each shape.
    """
    times = _time_shapes(trace, rows)
    by_name: dict[tuple[str, str], list[int]] = {}
    for number in times:
        shape = trace.shapes[number]
        if shape.kind in COMPUTE_KINDS:
            by_name.setdefault((shape.kind, shape.full_name or shape.name), []).append(number)
    names = distinguish(
        [
            (full_name, keep_namespace(full_name, trace.shapes[numbers[0]].name))
            for (_, full_name), numbers in by_name.items()
        ]
    )
    occupancies = estimate_occupancies(trace, rows)
    kernels = []
    for ((kind, full_name), numbers), name in zip(by_name.items(), names, strict=True):
        shapes = [
            ShapeTime(
                shape=trace.shapes[number],
                calls=len(times[number]),
                total_ns=int(times[number].sum()),
                median_ns=float(np.median(times[number])),
                registers=trace.shapes[number].registers or None,
                shared_bytes=_find_shared(trace, number),
                occupancies=occupancies[number],
            )
            for number in numbers
        ]
        every = np.concatenate([times[number] for number in numbers])
        kernels.append(
            KernelTime(
                name=name,
                full_name=full_name,
                kind=kind,
                category=categories[numbers[0]],
                calls=len(every),
                total_ns=int(every.sum()),
                median_ns=float(np.median(every)),
                shapes=tuple(sorted(shapes, key=lambda one: (-one.total_ns, one.shape))),
            )
        )
    return tuple(sorted(kernels, key=lambda one: (-one.total_ns, one.name)))


def sum_categories(kernels: Sequence[KernelTime]) -> tuple[CategoryTime, ...]:
    """Kernel time by category, the longest first. The totals add up to that of all kernels."""
    whole_ns = sum(one.total_ns for one in kernels)
    found = []
    for category in dict.fromkeys(one.category for one in kernels):
        own = [one for one in kernels if one.category == category]
        total_ns = sum(one.total_ns for one in own)
        share = total_ns / whole_ns if whole_ns else 0.0
        found.append(CategoryTime(category, sum(one.calls for one in own), total_ns, share))
    return tuple(sorted(found, key=lambda one: (-one.total_ns, one.category)))


def tabulate_copies(trace: Trace, rows: Ints, timeline: Timeline) -> tuple[CopyTime, ...]:
    """Copies and sets by kind and direction, the longest in total first.

    Args:
        trace: the trace.
        rows: shape (launches,), rows of ``trace.launches`` that count.
        timeline: of the same trace.
    """
    launches = trace.launches
    found = []
    for number, times in _time_shapes(trace, rows).items():
        shape = trace.shapes[number]
        if shape.kind not in COPY_KINDS:
            continue
        own = rows[launches.shape[rows] == number]
        line, kernels = timeline.device[own], timeline.kernels
        start = kernels.axis.place(line, launches.start_ns[own])
        end = kernels.axis.place(line, launches.end_ns[own])
        memory = shape.full_name.removeprefix(shape.name).strip(" ()")
        found.append(
            CopyTime(
                name=shape.name,
                memory=memory,
                count=len(own),
                total_ns=int(times.sum()),
                bytes_moved=int(launches.bytes_moved[own].sum()),
                overlapped_ns=int(kernels.covered(start, end).sum()),
                median_ns=float(np.median(times)),
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.total_ns, one.name, one.memory)))


def _find_shared(trace: Trace, number: int) -> int | None:
    """The shared memory of a shape, None where it is not known."""
    shape = trace.shapes[number]
    return shape.shared_bytes if shape.kind == "kernel" and number not in trace.shared_unknown else None


def _time_shapes(trace: Trace, rows: Ints) -> dict[int, Ints]:
    """Durations of the launches of each shape."""
    launches = trace.launches
    shape = launches.shape[rows]
    order = np.argsort(shape, kind="stable")
    duration_ns = np.maximum(launches.end_ns[rows] - launches.start_ns[rows], 0)[order]
    edges = np.flatnonzero(np.diff(shape[order])) + 1
    numbers = shape[order][np.concatenate([[0], edges]).astype(np.int64)] if len(rows) else shape
    return dict(zip(numbers.tolist(), np.split(duration_ns, edges), strict=False))
