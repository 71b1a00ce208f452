"""Memory that CUDA handed out and took back, event by event."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int64]


def _nothing() -> _Ints:
    return np.empty(0, np.int64)


class MemoryKind(enum.Enum):
    """Where memory lies."""

    DEVICE = "device"
    """On the device: allocations, arrays, mapped memory, and what memory pools have reserved."""
    POOLED = "in use of pools"
    """What the program has allocated of memory pools (cudaMallocAsync), as part of what these have reserved."""
    STATIC = "static variables"
    """On the device, for variables of the code, from when it is loaded."""
    MANAGED = "managed"
    """On the host or on the device, wherever it was touched last."""
    PINNED = "pinned host"
    PAGEABLE = "pageable host"
    UNKNOWN = "unknown"


KINDS = tuple(MemoryKind)
"""Their numbers in the columns of events."""


@dataclass(frozen=True, slots=True)
class MemoryEvents:
    """Allocations and frees, shape (events,) each. Rows may come in any order.

    Attributes:
        time_ns: int64.
        process: int64.
        device: int64, ordinal within its process.
        correlation: int64, that of the call that made it; 0 where unknown.
        kind: int64, index into KINDS; POOLED for memory of a pool whose size is known.
        address: int64, which the process gives to one allocation at a time.
        size_bytes: int64, of the allocation.
        is_free: bool, whether it ends, as opposed to begins.
    """

    time_ns: _Ints = field(default_factory=_nothing)
    process: _Ints = field(default_factory=_nothing)
    device: _Ints = field(default_factory=_nothing)
    correlation: _Ints = field(default_factory=_nothing)
    kind: _Ints = field(default_factory=_nothing)
    address: _Ints = field(default_factory=_nothing)
    size_bytes: _Ints = field(default_factory=_nothing)
    is_free: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True, slots=True)
class PoolSizes:
    """What memory pools have reserved, whenever the tool noted it; shape (notes,) each, in any order.

    Attributes:
        time_ns: int64.
        process: int64.
        device: int64, ordinal within its process.
        correlation: int64, that of the call that was made; 0 where unknown.
        pool: int64, its address.
        size_bytes: int64, after the call.
    """

    time_ns: _Ints = field(default_factory=_nothing)
    process: _Ints = field(default_factory=_nothing)
    device: _Ints = field(default_factory=_nothing)
    correlation: _Ints = field(default_factory=_nothing)
    pool: _Ints = field(default_factory=_nothing)
    size_bytes: _Ints = field(default_factory=_nothing)

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True, slots=True)
class RecordedMemory:
    """What a recording says of memory; empty where the tool did not record it."""

    events: MemoryEvents = field(default_factory=MemoryEvents)
    pools: PoolSizes = field(default_factory=PoolSizes)
