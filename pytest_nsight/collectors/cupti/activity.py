"""What the device does between two moments, as CUPTI's activity records; in the measuring process.

The layouts of the records are those of CUDA 13.0's cupti_activity.h; later versions only append to them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_nsight.collectors.cupti.library import Cupti

COPY, SET, DRIVER, RUNTIME, CONCURRENT_KERNEL = 1, 2, 4, 5, 10
_KINDS = {COPY: "copy", SET: "set", DRIVER: "driver", RUNTIME: "runtime", CONCURRENT_KERNEL: "kernel"}
_BUFFER_BYTES = 64 << 20
"""So large that CUPTI returns a buffer only when asked to: its own thread would need Python's lock to do so."""

_ALIGNMENT = 8
_FORCED = 1


class _Kernel(ctypes.Structure):
    _pack_ = 1
    _fields_: ClassVar = [
        ("kind", c_uint32),
        ("configuration", c_uint8 * 2),
        ("registers", c_uint16),
        ("partition", c_uint32 * 2),
        ("start", c_uint64),
        ("end", c_uint64),
        ("completed", c_uint64),
        ("device", c_uint32),
        ("context", c_uint32),
        ("stream", c_uint32),
        ("grid", c_int32 * 3),
        ("block", c_int32 * 3),
        ("static_shared", c_int32),
        ("dynamic_shared", c_int32),
        ("local_per_thread", c_uint32),
        ("local_total", c_uint32),
        ("correlation", c_uint32),
        ("grid_id", c_int64),
        ("name", c_char_p),
        ("reserved", c_void_p),
        ("queued", c_uint64),
        ("submitted", c_uint64),
        ("launch", c_uint8 * 4),
        ("executed_shared", c_uint32),
        ("graph_node", c_uint64),
        ("limit", c_uint32),
        ("graph", c_uint32),
        ("window", c_void_p),
        ("channel", c_uint32 * 2),
        ("cluster", c_uint32 * 3),
    ]


class _Copy(ctypes.Structure):
    _pack_ = 1
    _fields_: ClassVar = [
        ("kind", c_uint32),
        ("direction", c_uint8),
        ("places", c_uint8 * 3),
        ("bytes", c_uint64),
        ("start", c_uint64),
        ("end", c_uint64),
        ("device", c_uint32),
        ("context", c_uint32),
        ("stream", c_uint32),
        ("correlation", c_uint32),
        ("runtime_correlation", c_uint32),
        ("padding", c_uint32),
        ("reserved", c_void_p),
        ("graph_node", c_uint64),
    ]


class _Set(ctypes.Structure):
    _pack_ = 1
    _fields_: ClassVar = [
        ("kind", c_uint32),
        ("value", c_uint32),
        ("bytes", c_uint64),
        ("start", c_uint64),
        ("end", c_uint64),
        ("device", c_uint32),
        ("context", c_uint32),
        ("stream", c_uint32),
        ("correlation", c_uint32),
        ("flags", c_uint16 * 2),
        ("padding", c_uint32),
        ("reserved", c_void_p),
        ("graph_node", c_uint64),
    ]


class _Api(ctypes.Structure):
    _pack_ = 1
    _fields_: ClassVar = [
        ("kind", c_uint32),
        ("callback", c_uint32),
        ("start", c_uint64),
        ("end", c_uint64),
        ("process", c_uint32),
        ("thread", c_uint32),
        ("correlation", c_uint32),
    ]


_LAYOUTS: dict[int, Any] = {COPY: _Copy, SET: _Set, DRIVER: _Api, RUNTIME: _Api, CONCURRENT_KERNEL: _Kernel}


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

    @property
    def duration_ns(self) -> int:
        """From start to end."""
        return self.end_ns - self.start_ns

    @property
    def is_on_device(self) -> bool:
        """Whether it is work of the device, not a call of the host."""
        return self.kind in ("kernel", "copy", "set")


_Requested = ctypes.CFUNCTYPE(None, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_size_t))
_Completed = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_void_p, c_size_t, c_size_t)


class ActivityRecorder:
    """Records what the device does between `start` and `stop`.

    Attributes:
        dropped: records that CUPTI says it lost.
    """

    def __init__(self, cupti: Cupti) -> None:
        self.dropped = 0
        self._cupti = cupti
        self._given: dict[int, Any] = {}
        self._completed: list[tuple[int, int]] = []
        self._kinds: Sequence[int] = ()
        # Kept as attributes: CUPTI holds their addresses.
        self._callbacks = (_Requested(self._give_buffer), _Completed(self._take_buffer))

    def start(self, kinds: Sequence[int] = (CONCURRENT_KERNEL, COPY, SET)) -> None:
        """Begins.

        Raises:
            CuptiError: CUPTI refuses, as where another profiler is active.
        """
        self._cupti.call("cuptiActivityRegisterCallbacks", *self._callbacks)
        for kind in kinds:
            self._cupti.call("cuptiActivityEnable", kind)
        self._kinds = kinds

    def stop(self) -> list[Activity]:
        """Ends, and gives the records in the order of their start."""
        self._cupti.call("cuptiActivityFlushAll", _FORCED)
        for kind in self._kinds:
            self._cupti.call("cuptiActivityDisable", kind)
        return sorted(self._read(), key=lambda activity: activity.start_ns)

    def _give_buffer(self, buffer: Any, size: Any, most_records: Any) -> None:
        memory = ctypes.create_string_buffer(_BUFFER_BYTES + _ALIGNMENT)
        address = -(-ctypes.addressof(memory) // _ALIGNMENT) * _ALIGNMENT
        self._given[address] = memory
        buffer[0], size[0], most_records[0] = address, _BUFFER_BYTES, 0

    def _take_buffer(self, context: int, stream: int, buffer: int, _: int, valid_bytes: int) -> None:
        self._completed.append((buffer, valid_bytes))
        dropped = c_size_t()
        self._cupti.call(
            "cuptiActivityGetNumDroppedRecords", c_void_p(context), c_uint32(stream), ctypes.byref(dropped)
        )
        self.dropped += dropped.value

    def _read(self) -> Iterator[Activity]:
        for buffer, valid_bytes in self._completed:
            record = c_void_p()
            while valid_bytes and self._cupti.next_record(buffer, valid_bytes, record):
                activity = _decode(record.value or 0)
                if activity is not None:
                    yield activity
            self._given.pop(buffer, None)
        self._completed.clear()


def _decode(address: int) -> Activity | None:
    kind = c_uint32.from_address(address).value
    layout = _LAYOUTS.get(kind)
    if layout is None:
        return None
    raw = layout.from_address(address)
    label = _KINDS[kind]
    if layout is _Api:
        return Activity(label, str(raw.callback), raw.start, raw.end, raw.correlation)
    if layout is _Kernel:
        return Activity(
            kind=label,
            name=(raw.name or b"").decode(),
            start_ns=raw.start,
            end_ns=raw.end,
            correlation=raw.correlation,
            stream=raw.stream,
            graph_node=raw.graph_node,
            grid=tuple(raw.grid),
            block=tuple(raw.block),
            cluster=tuple(raw.cluster),
            registers=raw.registers,
            shared_bytes=raw.dynamic_shared,
        )
    name = str(raw.direction if layout is _Copy else raw.value)
    return Activity(
        kind=label,
        name=name,
        start_ns=raw.start,
        end_ns=raw.end,
        correlation=raw.correlation,
        stream=raw.stream,
        graph_node=raw.graph_node,
        bytes_moved=raw.bytes,
    )
