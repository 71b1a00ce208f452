"""What the device does between two moments, as CUPTI's activity records; in the measuring process."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from ctypes import POINTER, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_nsight.collectors.cupti.library import Cupti
from pytest_nsight.collectors.cupti.record_layouts import (
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


def list_activities(records: Mapping[int, Rows]) -> Iterator[Activity]:
    """Collected records one by one.

    Args:
        records: of `ActivityRecorder.collect`; the modules of their kernels are still loaded.
    """
    for kind, rows in records.items():
        names = read_texts(rows["name"]) if kind == CONCURRENT_KERNEL else {}
        for row in rows:
            yield _to_activity(kind, row, names)


def _to_activity(kind: int, row: Any, names: Mapping[int, str]) -> Activity:
    times = (int(row["start"]), int(row["end"]), int(row["correlation"]))
    if kind in (DRIVER, RUNTIME):
        return Activity(_KINDS[kind], str(row["number"]), *times)
    place = (int(row["stream"]), int(row["graph_node"]))
    if kind != CONCURRENT_KERNEL:
        name = str(row["value"] if kind == SET else row["direction"])
        return Activity(_KINDS[kind], name, *times, *place, bytes_moved=int(row["bytes"]))
    return Activity(
        _KINDS[kind],
        names[int(row["name"])],
        *times,
        *place,
        grid=tuple(row["grid"].tolist()),
        block=tuple(row["block"].tolist()),
        cluster=tuple(row["cluster"].tolist()),
        registers=int(row["registers"]),
        shared_bytes=int(row["dynamic_shared"]),
        preferences=_read_preferences(row),
    )


def _read_preferences(row: Any) -> tuple[str, ...]:
    requested = int(row["cache"]) & _REQUESTED
    found = [f"cache preference {requested}"] if requested else []
    return (*found, *([f"shared memory carveout {int(row['carveout'])}"] if row["has_carveout"] else []))
