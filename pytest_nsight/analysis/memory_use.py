"""How much memory a program held, when and where, and which ranges take more of it. Pure.

It is what CUDA handed out: of a caching allocator what it has reserved, whether tensors use it or not. A process
that has ended holds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.memory_changes import MemoryChanges, list_changes
from pytest_nsight.analysis.range_mix import FEWEST_REPETITIONS, find_outermost
from pytest_nsight.analysis.range_tree import OUTSIDE, RangeTable
from pytest_nsight.model.memory_events import KINDS, MemoryKind
from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.trace import Ints, Trace
from pytest_nsight.model.trace_devices import TraceDevice
from pytest_nsight.model.units import amount, count
from pytest_nsight.trace.attribution import attribute

_MOST = 30
"""Labels that are listed: those that take or give back the most memory."""
_NEARLY_FULL = 0.9
"""Share of a device's memory from which on a note says so."""
_DEVICE = KINDS.index(MemoryKind.DEVICE)


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The memory of one kind that processes held through one device.

    Attributes:
        device: the board.
        kind: where the memory lies.
        peak_bytes: the most that all processes together held at a time.
        peak_ns: when that was first reached, since the first thing that was recorded.
        peak_range: label of the innermost range of the process then, OUTSIDE where none was open.
        end_bytes: what each process held at its end, added up.
        allocated_bytes: in total; of pools, by how much they grew.
        allocations: how often.
        freed_bytes: in total.
        frees: how often.
    """

    device: TraceDevice
    kind: MemoryKind
    peak_bytes: int
    peak_ns: int
    peak_range: str
    end_bytes: int
    allocated_bytes: int
    allocations: int
    freed_bytes: int
    frees: int


@dataclass(frozen=True, slots=True)
class RangeMemory:
    """What the ranges with one label take of the memory of one device.

    Attributes:
        device: the board.
        label: what the ranges are called.
        count: number of ranges; one inside another of its label does not count again.
        growth_bytes: what they allocate less what they free.
        growing: how many of them allocate more than they free.
        peak_bytes: the most that their process held while one of them was open.
        allocated_bytes: in total.
        allocations: how often.
        allocating: how many of them allocate.
    """

    device: TraceDevice
    label: str
    count: int
    growth_bytes: int
    growing: int
    peak_bytes: int
    allocated_bytes: int
    allocations: int
    allocating: int


@dataclass(frozen=True, slots=True)
class MemoryPicture:
    """Everything that is known of the memory of a trace; empty where it was not recorded.

    Attributes:
        uses: by device and kind.
        ranges: those that take or give back the most first.
        notes: sentences for the reader.
    """

    uses: tuple[MemoryUse, ...] = ()
    ranges: tuple[RangeMemory, ...] = ()
    notes: tuple[str, ...] = ()


def measure_memory(trace: Trace, table: RangeTable, *, is_chosen: bool) -> MemoryPicture:
    """What the recording says of memory.

    Args:
        trace: the trace.
        table: the ranges.
        is_chosen: whether the user chose them; then the picture is about them alone.
    """
    if not len(trace.memory.events):
        return MemoryPicture()
    changes, devices, notes = list_changes(trace)
    ranges = _measure_ranges(trace, table, changes.take(changes.kind == _DEVICE), devices)
    if is_chosen:
        return MemoryPicture(ranges=ranges)
    uses = _measure_devices(trace, table, changes, devices)
    return MemoryPicture(uses, ranges, (*notes, *_note_full(uses), *_note_recurring(ranges)))


def _measure_devices(
    trace: Trace, table: RangeTable, changes: MemoryChanges, devices: Sequence[TraceDevice]
) -> tuple[MemoryUse, ...]:
    """One row for each device and kind that something was allocated of, in order of the devices' numbers."""
    starts = (trace.ranges.start_ns, trace.calls.start_ns, trace.launches.start_ns, changes.time_ns)
    first_ns = min(int(times.min()) for times in starts if len(times))
    last_ns = {process: _find_last(trace, changes, process) for process in distinct(changes.process).tolist()}
    uses = []
    for place in distinct(changes.line * len(KINDS) + changes.kind).tolist():
        line, kind = divmod(place, len(KINDS))
        own = changes.take((changes.line == line) & (changes.kind == kind))
        taken, given = own.added[own.added > 0], -own.added[own.added < 0]
        held = {process: int(own.added[own.process == process].sum()) for process in distinct(own.process).tolist()}
        ends = np.array([last_ns[process] for process in held], np.int64)
        times_ns = np.concatenate([own.time_ns, ends])
        order = np.argsort(times_ns, kind="stable")
        level = np.cumsum(np.concatenate([own.added, -np.array(list(held.values()), np.int64)])[order])
        peak = int(level.argmax())
        row = int(order[peak])
        process, peak_ns = int(own.process[row]), int(own.time_ns[row])
        uses.append(
            MemoryUse(
                device=devices[line],
                kind=KINDS[kind],
                peak_bytes=int(level[peak]),
                peak_ns=peak_ns - first_ns,
                peak_range=_find_innermost(trace, table, process, peak_ns),
                end_bytes=sum(held.values()),
                allocated_bytes=int(taken.sum()),
                allocations=len(taken),
                freed_bytes=int(given.sum()),
                frees=len(given),
            )
        )
    return tuple(sorted(uses, key=lambda use: (use.device.ordinal, use.device.process or 0)))


def _find_last(trace: Trace, changes: MemoryChanges, process: int) -> int:
    """The last time at which anything of a process was recorded."""
    ranges, calls, launches = trace.ranges, trace.calls, trace.launches
    times = (
        ranges.end_ns[(ranges.process == process) & ~ranges.is_open],
        calls.end_ns[calls.process == process],
        launches.end_ns[launches.process == process],
        changes.time_ns[changes.process == process],
    )
    return max(int(column.max()) for column in times if len(column))


def _find_innermost(trace: Trace, table: RangeTable, process: int, time_ns: int) -> str:
    """Label of the range of a process that was opened last and is still open at a time."""
    ranges = trace.ranges.take(table.rows)
    is_open = (ranges.process == process) & (ranges.start_ns <= time_ns) & (ranges.end_ns > time_ns)
    around = np.flatnonzero(is_open)
    if not len(around):
        return OUTSIDE
    inner = int(around[np.lexsort((ranges.end_ns[around], -ranges.start_ns[around]))[0]])
    return table.labels[int(table.label[inner])]


def _measure_ranges(
    trace: Trace, table: RangeTable, changes: MemoryChanges, devices: Sequence[TraceDevice]
) -> tuple[RangeMemory, ...]:
    """One row for each device and label that takes or gives back the most of the device's memory."""
    if not len(table.rows) or not len(changes.added):
        return ()
    members = attribute(trace, table.rows, changes.process, changes.thread, changes.time_ns)
    outer = find_outermost(table)
    found = []
    for line, device in enumerate(devices):
        levels = _find_levels(changes.take(changes.line == line))
        added = np.where(changes.line == line, changes.added, 0)
        growth, taken = members.sum_of(added), members.sum_of(np.maximum(added, 0))
        calls = members.sum_of((added > 0).astype(np.int64))
        moved = np.zeros(len(table.labels), np.int64)
        np.add.at(moved, table.label[outer], np.maximum(taken, taken - growth)[outer])
        for label in np.argsort(-moved, kind="stable")[:_MOST].tolist():
            if not moved[label]:
                break
            chosen = np.flatnonzero(outer & (table.label == label))
            row = RangeMemory(
                device=device,
                label=table.labels[label],
                count=len(chosen),
                growth_bytes=int(growth[chosen].sum()),
                growing=int((growth[chosen] > 0).sum()),
                peak_bytes=_find_peak(trace, table.rows[chosen], levels),
                allocated_bytes=int(taken[chosen].sum()),
                allocations=int(calls[chosen].sum()),
                allocating=int((calls[chosen] > 0).sum()),
            )
            found.append((int(moved[label]), row))
    return tuple(row for _, row in sorted(found, key=lambda one: -one[0])[:_MOST])


def _find_levels(changes: MemoryChanges) -> dict[int, tuple[Ints, Ints]]:
    """By process: the times of its changes, and what it held before the first and after each of them."""
    levels = {}
    for process in distinct(changes.process).tolist():
        own = changes.process == process
        levels[process] = changes.time_ns[own], np.cumsum(np.append(0, changes.added[own]))
    return levels


def _find_peak(trace: Trace, rows: Ints, levels: Mapping[int, tuple[Ints, Ints]]) -> int:
    """The most that a process held while one of its ranges was open.

    Args:
        trace: the trace.
        rows: shape (chosen,), rows of ``trace.ranges``.
        levels: of each process, as _find_levels gives them.
    """
    ranges = trace.ranges.take(rows)
    peaks = [0]
    for process, (time_ns, level) in levels.items():
        opened = ranges.process == process
        # Of a range counts what was held when it began, and after each change until its end.
        edges = np.zeros(len(level) + 1, np.int64)
        np.add.at(edges, np.searchsorted(time_ns, ranges.start_ns[opened]), 1)
        np.add.at(edges, np.searchsorted(time_ns, ranges.end_ns[opened], side="right") + 1, -1)
        peaks.append(int(level[np.cumsum(edges)[:-1] > 0].max(initial=0)))
    return max(peaks)


def _note_full(uses: Sequence[MemoryUse]) -> tuple[str, ...]:
    return tuple(
        f"device {one.device.ordinal} has {amount(one.device.memory_bytes, 'B')}, and "
        f"{amount(one.peak_bytes, 'B')} were held at most; the rest has to hold CUDA's contexts and kernels, too"
        for one in uses
        if one.kind is MemoryKind.DEVICE and one.peak_bytes >= _NEARLY_FULL * (one.device.memory_bytes or np.inf)
    )


def _note_recurring(ranges: Sequence[RangeMemory]) -> tuple[str, ...]:
    """A sentence on the range that allocates most often, if most of its repetitions do."""
    recurring = [one for one in ranges if one.count >= FEWEST_REPETITIONS and 2 * one.allocating > one.count]
    if not recurring:
        return ()
    most = max(recurring, key=lambda one: one.allocations)
    of = f"of {count(most.count, 'range')} {most.label}"
    if 2 * most.growing > most.count or 2 * most.growth_bytes >= most.allocated_bytes:
        kept = (
            f"{most.growing:,} {of} keep device memory that they allocate, {amount(most.growth_bytes, 'B')} in all"
        )
        return (f"{kept}: look for data of earlier ones that is still referenced, and for sizes that vary",)
    # The first one often keeps something, as a cache.
    freed = "it" if most.growth_bytes <= 0 or most.growing == 1 else "most of it"
    times = count(most.allocations, "time")
    often = f"{most.allocating:,} {of} allocate device memory and free {freed}, {times} in all"
    return (f"{often}: each time may wait for the device; keep the memory, or use an allocator that does",)
