"""What the device does between two moments, as CUPTI's activity records; in the measuring process."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from ctypes import POINTER, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_nsight.recorders.cupti.library import Cupti
from pytest_nsight.recorders.cupti.record_layouts import (
    CONCURRENT_KERNEL,
    COPY,
    DRIVER,
    PEER_COPY,
    RUNTIME,
    SET,
    Rows,
    read_texts,
    split_records,
)

_KINDS = {
    COPY: "copy", PEER_COPY: "copy", SET: "set", DRIVER: "driver", RUNTIME: "runtime", CONCURRENT_KERNEL: "kernel",
}  # fmt: skip
BUFFER_BYTES = 64 << 20
"""So large that CUPTI seldom fills a buffer by itself.

It asks for a buffer in the thread of the call that it records, and that thread then waits for Python's lock. A
process that holds this lock and waits for the other thread would never end. So a recording asks for its buffers at
the first call after `collect`, and has them collected between rounds.
"""

_ALIGNMENT = 8
_FORCED = 1
_MOST_SPARE = 2
_REQUESTED = 0xF
"""Bits of the byte on the cache; the others say what the device has done."""


@dataclass(frozen=True, slots=True)
class Activity:
    """One record.

    Attributes:
        kind: "kernel", "copy", "set", "runtime" or "driver".
        name: of the kernel; the direction of a copy; the number of an API call.
        start_ns: on CUPTI's clock.
        end_ns: likewise.
        correlation: number of the API call that caused it.
        stream: id of its stream, 0 for calls.
        graph_node: id of its node in a graph, 0 outside.
        grid: blocks of a kernel.
        block: threads of a kernel.
        cluster: blocks of a cluster.
        registers: per thread.
        shared_bytes: dynamic shared memory.
        bytes_moved: of a copy or set.
        preferences: how the program wants the first-level cache divided, as text; empty where it left that open.
    """

    kind: str
    name: str
    start_ns: int
    end_ns: int
    correlation: int
    stream: int = 0
    graph_node: int = 0
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    cluster: tuple[int, int, int] = (0, 0, 0)
    registers: int = 0
    shared_bytes: int = 0
    bytes_moved: int = 0
    preferences: tuple[str, ...] = ()

    @property
    def is_on_device(self) -> bool:
        """Whether it is work of the device, not a call of the host."""
        return self.kind in ("kernel", "copy", "set")


_Requested = ctypes.CFUNCTYPE(None, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_size_t))
_Completed = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_void_p, c_size_t, c_size_t)


class ActivityRecorder:
    """Records what the device does from `start` on.

    Attributes:
        dropped: records that CUPTI says it lost since `start`.
        collected_bytes: records collected since `start`.
        is_discarding: whether records are thrown away as they come, so that the time between two cases needs no
            memory.
    """

    def __init__(self, cupti: Cupti) -> None:
        self.dropped = 0
        self.collected_bytes = 0
        self.is_discarding = False
        self._cupti = cupti
        self._buffers: dict[int, Any] = {}
        self._spare: list[int] = []
        self._completed: list[tuple[int, int]] = []
        self._kinds: Sequence[int] = ()
        # Kept as attributes: CUPTI holds their addresses.
        self._callbacks = (_Requested(self._give_buffer), _Completed(self._take_buffer))

    def start(self, kinds: Sequence[int] = (CONCURRENT_KERNEL, COPY, PEER_COPY, SET)) -> None:
        """Begins, also where another tool has taken the records over meanwhile; forgets what was not collected.

        Raises:
            CuptiError: CUPTI refuses, as where another profiler is active.
        """
        self._cupti.call("cuptiActivityRegisterCallbacks", *self._callbacks)
        self._switch("cuptiActivityEnable", kinds)
        if self._kinds:
            self._flush()
        self._kinds = kinds
        while self._completed:
            self._release(self._completed.pop()[0])
        self.dropped = self.collected_bytes = 0

    def collect(self) -> dict[int, Rows]:
        """The records since the last call, by kind.

        Raises:
            CuptiError: they cannot be read.
        """
        self._flush()
        parts: dict[int, list[Rows]] = {}
        while self._completed:
            buffer, valid_bytes = self._completed.pop(0)
            for kind, rows in split_records(self._cupti, buffer, valid_bytes):
                parts.setdefault(kind, []).append(rows)
            self.collected_bytes += valid_bytes
            self._release(buffer)
        return {kind: np.concatenate(rows) for kind, rows in parts.items()}

    def disable(self) -> None:
        """Records nothing more, and delays no launch, until `resume`.

        Raises:
            CuptiError: CUPTI refuses.
        """
        self._switch("cuptiActivityDisable", self._kinds)

    def resume(self) -> None:
        """Records again.

        Raises:
            CuptiError: CUPTI refuses.
        """
        self._switch("cuptiActivityEnable", self._kinds)

    def _switch(self, function: str, kinds: Sequence[int]) -> None:
        for kind in kinds:
            self._cupti.call(function, c_uint32(kind))

    def _flush(self) -> None:
        self._cupti.call("cuptiActivityFlushAll", c_uint32(_FORCED))
        dropped = c_size_t()
        self._cupti.call("cuptiActivityGetNumDroppedRecords", None, c_uint32(0), ctypes.byref(dropped))
        self.dropped += dropped.value

    def _give_buffer(self, buffer: Any, size: Any, most_records: Any) -> None:
        try:
            address = self._spare.pop()
        except IndexError:
            memory = ctypes.create_string_buffer(BUFFER_BYTES + _ALIGNMENT)
            address = -(-ctypes.addressof(memory) // _ALIGNMENT) * _ALIGNMENT
            self._buffers[address] = memory
        buffer[0], size[0], most_records[0] = address, BUFFER_BYTES, 0

    def _take_buffer(self, _context: int, _stream: int, buffer: int, _size: int, valid_bytes: int) -> None:
        if buffer not in self._buffers:
            # Of another tool, which has asked for records before this one did.
            return
        if self.is_discarding:
            self._release(buffer)
        else:
            self._completed.append((buffer, valid_bytes))

    def _release(self, buffer: int) -> None:
        if len(self._spare) < _MOST_SPARE:
            self._spare.append(buffer)
        else:
            del self._buffers[buffer]


def list_activities(
    records: Mapping[int, Rows], calls_within_ns: Sequence[tuple[int, int]] | None = None
) -> Iterator[Activity]:
    """Collected records one by one.

    Args:
        records: of `ActivityRecorder.collect`; the modules of their kernels are still loaded.
        calls_within_ns: begin and end of each time whose API calls are wanted, on CUPTI's clock; None for all.
            Calls that the device did something for are always listed.
    """
    if calls_within_ns is not None:
        records = _leave_out_calls(records, calls_within_ns)
    for kind, rows in records.items():
        # Whole columns become Python's numbers at once: one by one takes twice as long.
        columns = (rows[field].tolist() for field in ("start", "end", "correlation"))
        times: list[tuple[int, int, int]] = list(zip(*columns, strict=True))
        if kind in (DRIVER, RUNTIME):
            for number, own_times in zip(rows["number"].tolist(), times, strict=True):
                yield Activity(_KINDS[kind], str(number), *own_times)
            continue
        places: list[tuple[int, int]] = list(zip(rows["stream"].tolist(), rows["graph_node"].tolist(), strict=True))
        if kind == CONCURRENT_KERNEL:
            yield from _list_kernels(rows, times, places)
            continue
        names = rows["value" if kind == SET else "direction"].tolist()
        for name, own_times, place, size in zip(names, times, places, rows["bytes"].tolist(), strict=True):
            yield Activity(_KINDS[kind], str(name), *own_times, *place, bytes_moved=size)


def _leave_out_calls(records: Mapping[int, Rows], within_ns: Sequence[tuple[int, int]]) -> dict[int, Rows]:
    """The records without calls outside of these times that the device did nothing for: many in a test's set-up."""
    on_device = [rows["correlation"] for kind, rows in records.items() if kind not in (DRIVER, RUNTIME)]
    causes = np.concatenate(on_device) if on_device else np.zeros(0, np.uint32)
    kept = dict(records)
    for kind in {DRIVER, RUNTIME} & records.keys():
        rows = records[kind]
        is_wanted = np.isin(rows["correlation"], causes)
        for begin_ns, end_ns in within_ns:
            is_wanted |= (rows["start"] >= begin_ns) & (rows["start"] < end_ns)
        kept[kind] = rows[is_wanted]
    return kept


def _list_kernels(
    rows: Rows, times: Sequence[tuple[int, int, int]], places: Sequence[tuple[int, int]]
) -> Iterator[Activity]:
    names = read_texts(rows["name"])
    fields = (
        "name",
        "grid",
        "block",
        "cluster",
        "registers",
        "dynamic_shared",
        "cache",
        "has_carveout",
        "carveout",
    )
    columns = zip(*(rows[field].tolist() for field in fields), strict=True)
    for own_times, place, column in zip(times, places, columns, strict=True):
        name, grid, block, cluster, registers, shared_bytes, cache, has_carveout, carveout = column
        yield Activity(
            _KINDS[CONCURRENT_KERNEL],
            names[name],
            *own_times,
            *place,
            grid=tuple(grid),
            block=tuple(block),
            cluster=tuple(cluster),
            registers=registers,
            shared_bytes=shared_bytes,
            preferences=_say_preferences(cache, carveout if has_carveout else None),
        )


def _say_preferences(cache: int, carveout: int | None) -> tuple[str, ...]:
    requested = cache & _REQUESTED
    found = [f"cache preference {requested}"] if requested else []
    return (*found, *([] if carveout is None else [f"shared memory carveout {carveout}"]))
