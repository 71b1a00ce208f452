"""What was held of memory, as changes in order of time: allocations begin and end, and pools grow and shrink. Pure.

An allocation ends with the next event of its address: its free, or another allocation where the free was not
recorded. A free of nothing that was allocated changes nothing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.timeline import number_devices
from pytest_nsight.model.memory_events import KINDS, MemoryEvents, MemoryKind, PoolSizes
from pytest_nsight.model.sorted_keys import rank_groups
from pytest_nsight.model.trace import ANY_THREAD, Flags, Ints, Trace
from pytest_nsight.model.trace_devices import TraceDevice
from pytest_nsight.model.units import count
from pytest_nsight.trace.attribution import NO_CALL, match_calls


@dataclass(frozen=True, slots=True)
class MemoryChanges:
    """Changes of what is held, in order of time, shape (changes,) each.

    Attributes:
        time_ns: when.
        process: whose memory it is.
        thread: which called, ANY_THREAD where unknown.
        line: number of the device.
        kind: index into KINDS.
        added: bytes, negative where they were given back.
    """

    time_ns: Ints
    process: Ints
    thread: Ints
    line: Ints
    kind: Ints
    added: Ints

    def take(self, rows: Ints | Flags) -> MemoryChanges:
        """Some of them, in that order."""
        return MemoryChanges(*(getattr(self, column.name)[rows] for column in dataclasses.fields(self)))


def list_changes(trace: Trace) -> tuple[MemoryChanges, tuple[TraceDevice, ...], tuple[str, ...]]:
    """The changes, the board of each line, and sentences on what is missing.

    Args:
        trace: any trace.
    """
    events, pools = trace.memory.events, trace.memory.pools
    ended, ending, begun = _pair(events)
    sized, pool_added = _find_growth(pools)
    sized += len(events)

    def join(name: str) -> Ints:
        column: Ints = np.concatenate([getattr(events, name), getattr(pools, name)])
        return column

    time_ns, process, correlation = join("time_ns"), join("process"), join("correlation")
    line, devices = number_devices(trace, process, join("device"))
    call = match_calls(trace, process, correlation)
    thread = np.full(len(call), ANY_THREAD, np.int64)
    thread[call != NO_CALL] = trace.calls.thread[call[call != NO_CALL]]
    owner, cause = np.concatenate([ended, begun, sized]), np.concatenate([ending, begun, sized])
    pool_kind = np.full(len(sized), KINDS.index(MemoryKind.DEVICE))
    changes = MemoryChanges(
        time_ns=time_ns[cause],
        process=process[owner],
        thread=thread[cause],
        line=line[owner],
        kind=np.concatenate([events.kind[ended], events.kind[begun], pool_kind]),
        added=np.concatenate([-events.size_bytes[ended], events.size_bytes[begun], pool_added]),
    )
    # Of one time, what ends is before what begins.
    in_order = changes.take(np.argsort(changes.time_ns, kind="stable"))
    unfreed = int((~events.is_free[ending]).sum())
    return in_order, devices, _note_gaps(int(events.is_free.sum()) - (len(ending) - unfreed), unfreed)


def _pair(events: MemoryEvents) -> tuple[Ints, Ints, Ints]:
    """The allocations that end, the events that end them, and all allocations, as rows of the events."""
    number, _ = rank_groups(events.process, events.address)
    order = np.lexsort((events.time_ns, number))
    number, is_free = number[order], events.is_free[order]
    position = np.flatnonzero((number[1:] == number[:-1]) & ~is_free[:-1])
    return order[position], order[position + 1], np.flatnonzero(~events.is_free)


def _find_growth(pools: PoolSizes) -> tuple[Ints, Ints]:
    """The rows at which a pool has another size than before, and by how many bytes; it begins with none."""
    number, _ = rank_groups(pools.process, pools.pool)
    order = np.lexsort((pools.time_ns, number))
    number, size = number[order], pools.size_bytes[order]
    added = size.copy()
    added[1:] -= np.where(number[1:] == number[:-1], size[:-1], 0)
    changed = np.flatnonzero(added)
    return order[changed], added[changed]


def _note_gaps(unallocated: int, unfreed: int) -> tuple[str, ...]:
    notes = []
    if unallocated:
        frees = count(unallocated, "free is of memory", "frees are of memory")
        notes.append(
            f"{frees} that was allocated before the recording began, or whose allocation is missing from it: more "
            "memory was held than the tables of memory say"
        )
    if unfreed:
        again = count(unfreed, "allocation has", "allocations have")
        notes.append(f"{again} the address of another one whose free was not recorded; that counts as freed then")
    return tuple(notes)
