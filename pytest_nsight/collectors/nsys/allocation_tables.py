"""The tables of memory that CUDA hands out and takes back, which `nsys profile --cuda-memory-usage=true` fills.

Virtual memory is among it: PyTorch's expandable segments have a row for each piece that they map or unmap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_nsight.collectors.nsys.columns import Arrays, ExportColumn, process_ids
from pytest_nsight.model.memory_events import KINDS, MemoryEvents, MemoryKind, PoolSizes, RecordedMemory
from pytest_nsight.model.trace import Flags, Ints
from pytest_nsight.model.units import count

USAGE = "CUDA_GPU_MEMORY_USAGE_EVENTS"
POOLS = "CUDA_GPU_MEMORY_POOL_EVENTS"

_UNKNOWN = -1
_POOL = "localMemoryPoolAddress"
_PLACE = (
    ExportColumn("start"),
    ExportColumn("globalPid", 0),
    ExportColumn("deviceId"),
    ExportColumn("correlationId", 0),
    ExportColumn("localMemoryPoolSize", _UNKNOWN),
)
COLUMNS: Mapping[str, Sequence[ExportColumn]] = {
    USAGE: (
        *_PLACE,
        ExportColumn("address"),
        ExportColumn("bytes"),
        ExportColumn("memKind", _UNKNOWN),
        ExportColumn("memoryOperationType", _UNKNOWN),
        ExportColumn(_POOL, 0),
    ),
    POOLS: (
        *_PLACE,
        ExportColumn("address", 0, alias=_POOL),
        ExportColumn("operationType", _UNKNOWN),
    ),
}

_ALLOCATION, _FREE = 0, 1
"""Values of memoryOperationType, the same from 2022.4 on."""
_DESTROYED = 2
"""A value of a pool's operationType."""
_OF_DEVICE = 2
"""The memKind of what pools of device memory hand out; CUDA has pools of the host's memory, too."""
_KINDS = (
    MemoryKind.PAGEABLE,
    MemoryKind.PINNED,
    MemoryKind.DEVICE,
    MemoryKind.DEVICE,  # an array
    MemoryKind.MANAGED,
    MemoryKind.STATIC,
    MemoryKind.MANAGED,  # a static variable
    MemoryKind.UNKNOWN,
)
"""By memKind. Versions before 2023.4 leave the table of its names empty."""
_MOST_POOLED = 2**48
"""No pool has 256 TB; sums of such would overflow."""


def build_memory(tables: dict[str, Arrays]) -> tuple[RecordedMemory, tuple[str, ...]]:
    """What was recorded of memory, and sentences on what could not be read.

    Args:
        tables: table -> columns, as read; those of memory are removed.
    """
    usage, pools = ({name: _widen(column) for name, column in tables.pop(one).items()} for one in (USAGE, POOLS))
    notes = []
    is_known = np.isin(usage["memoryOperationType"], (_ALLOCATION, _FREE))
    if unknown := int((~is_known).sum()):
        notes.append(f"{count(unknown, 'row')} of {USAGE} with an operation other than 0 and 1 left out")
        usage = {name: column[is_known] for name, column in usage.items()}
    time_ns = usage["start"]
    if len(time_ns) > 1 and (time_ns == time_ns[0]).all():
        notes.append(f"all {len(time_ns):,} rows of {USAGE} have one time, and are left out")
        return RecordedMemory(), tuple(notes)
    is_pooled = _flag_sizes(usage) & (usage["memKind"] == _OF_DEVICE)
    is_sized = _flag_sizes(pools) & ~np.isin(pools[_POOL], usage[_POOL][~is_pooled])
    pools["localMemoryPoolSize"] = np.where(pools["operationType"] == _DESTROYED, 0, pools["localMemoryPoolSize"])
    kind = np.where((usage["memKind"] >= 0) & (usage["memKind"] < len(_KINDS)), usage["memKind"], -1)
    kind = np.array([KINDS.index(one) for one in _KINDS], np.int64)[kind]
    events = MemoryEvents(
        time_ns=time_ns,
        process=process_ids(usage["globalPid"]),
        device=usage["deviceId"],
        correlation=usage["correlationId"],
        kind=np.where(is_pooled, KINDS.index(MemoryKind.POOLED), kind),
        address=usage["address"],
        size_bytes=usage["bytes"],
        is_free=usage["memoryOperationType"] == _FREE,
    )
    columns = {
        name: np.concatenate([usage[name][is_pooled], pools[name][is_sized]])
        for name in (*(column.name for column in _PLACE), _POOL)
    }
    sizes = PoolSizes(
        time_ns=columns["start"],
        process=process_ids(columns["globalPid"]),
        device=columns["deviceId"],
        correlation=columns["correlationId"],
        pool=columns[_POOL],
        size_bytes=columns["localMemoryPoolSize"],
    )
    return RecordedMemory(events, sizes), tuple(notes)


def _widen(column: npt.NDArray[np.signedinteger[Any]]) -> Ints:
    return column.astype(np.int64, copy=False)


def _flag_sizes(columns: Mapping[str, Ints]) -> Flags:
    """Which rows say how large the pool is that they are about."""
    size = columns["localMemoryPoolSize"]
    flags: Flags = (columns[_POOL] != 0) & (size >= 0) & (size < _MOST_POOLED)
    return flags
