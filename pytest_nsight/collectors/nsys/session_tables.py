"""The small tables of an export: the tool that wrote it, the time, the boards, and the tool's diagnostics."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from pytest_nsight.collectors.nsys.columns import ID_BITS, ID_MASK
from pytest_nsight.collectors.nsys.open_export import Export
from pytest_nsight.model.trace_devices import MultiprocessorLimits, TraceDevice

METADATA_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA")
LIMIT_COLUMNS = (
    "maxWarpsPerSm", "maxBlocksPerSm", "maxRegistersPerSm", "maxShmemPerSm", "computeMajor", "computeMinor",
)  # fmt: skip
"""Columns of TARGET_INFO_GPU that limit how many blocks of a kernel a multiprocessor holds."""
MOST_MULTIPROCESSORS = 2**16
"""No device has that many; sums of larger numbers might overflow."""
MOST_MEMORY = 2**48
"""No device has 256 TB."""
WARNING, ERROR = 2, 3
"""Values of DIAGNOSTIC_EVENT.severity."""


def read_tool(export: Export) -> str:
    """Name and version of the tool, "" if the export does not say.

    Args:
        export: the file.

    Raises:
        TraceError: the file is damaged.
    """
    for table in METADATA_TABLES:
        if export.has(table, "name", "value"):
            values = {name: str(value) for name, value in export.query(f"SELECT name, value FROM {table}")}
            parts = (values.get(f"EXPORT_PRODUCT_{part}", "") for part in ("NAME", "VERSION"))
            return " ".join(part for part in parts if part)
    return ""


def read_epoch_ns(export: Export) -> int | None:
    """Wall-clock time of the trace's time zero, ns since 1970 UTC; None if the export does not say.

    Args:
        export: the file.

    Raises:
        TraceError: the file is damaged.
    """
    if not export.has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
        return None
    for (epoch_ns,) in export.query("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1"):
        return epoch_ns if isinstance(epoch_ns, int) else None
    return None


def read_devices(export: Export) -> tuple[TraceDevice, ...]:
    """The boards, per process where the export says so (from 2025), else one numbering for all processes.

    Args:
        export: the file.

    Raises:
        TraceError: the file is damaged.
    """
    if not export.has("TARGET_INFO_GPU", "id", "name", "uuid", "cuDevice"):
        return _read_names(export)
    optional = [
        name if export.has("TARGET_INFO_GPU", name) else "NULL"
        for name in ("memoryBandwidth", "smCount", "totalMemory", *LIMIT_COLUMNS)
    ]
    boards = export.query(f"SELECT id, cuDevice, uuid, name, {', '.join(optional)} FROM TARGET_INFO_GPU")
    by_id = {
        board: (
            board_uuid(uuid),
            str(name),
            _bandwidth(bandwidth),
            _limits(limits),
            _count(multiprocessors, MOST_MULTIPROCESSORS),
            _count(memory_bytes, MOST_MEMORY),
        )
        for board, _, uuid, name, bandwidth, multiprocessors, memory_bytes, *limits in boards
    }
    devices = [TraceDevice(None, row[1], *by_id[row[0]]) for row in boards]
    if export.has("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid"):
        mapping = export.query(
            "SELECT DISTINCT pid, cudaId, gpuId FROM TARGET_INFO_CUDA_DEVICE ORDER BY pid, cudaId"
        )
        devices = [
            TraceDevice(process, ordinal, *by_id[board]) for process, ordinal, board in mapping if board in by_id
        ] or devices
    return tuple(devices)


def _read_names(export: Export) -> tuple[TraceDevice, ...]:
    """The boards of an export of 2022, which knows no uuid."""
    if not export.has("TARGET_INFO_GPU", "deviceId", "name"):
        return ()
    boards = export.query("SELECT deviceId, name FROM TARGET_INFO_GPU ORDER BY deviceId")
    return tuple(TraceDevice(None, number, "", str(name)) for number, name in boards if isinstance(number, int))


def board_uuid(stored: object) -> str:
    """The UUID of a board as NVML writes it: with "GPU-" before what nsys stores."""
    text = str(stored or "")
    return f"GPU-{text}" if text and not text.startswith(("GPU-", "MIG-")) else text


def _limits(stored: Sequence[object]) -> MultiprocessorLimits | None:
    """The limits of a multiprocessor in the order of LIMIT_COLUMNS; None where one of them is missing."""
    values = [value for value in stored if isinstance(value, int)]
    if len(values) < len(LIMIT_COLUMNS) or min(values[:-1]) <= 0:
        return None
    warps, blocks, registers, shared_bytes, major, minor = values
    return MultiprocessorLimits(warps, blocks, registers, shared_bytes, (major, minor))


def _count(stored: object, most: int) -> int:
    return stored if isinstance(stored, int) and 0 < stored < most else 0


def _bandwidth(stored: object) -> float | None:
    return float(stored) if isinstance(stored, (int, float)) and stored > 0 else None


def read_programs(export: Export, traced: Collection[int]) -> tuple[str, ...]:
    """Names of processes and of their threads; an export lists all of the machine.

    Args:
        export: the file.
        traced: the processes that something was recorded from.

    Raises:
        TraceError: the file is damaged.
    """
    found: dict[str, None] = {}
    if export.has("PROCESSES", "globalPid", "name"):
        found |= _choose_names(export.query("SELECT globalPid, name FROM PROCESSES"), traced)
    if export.has("ThreadNames", "globalTid", "nameId") and export.has("StringIds", "id", "value"):
        names = "SELECT globalTid, value FROM ThreadNames JOIN StringIds ON id = nameId"
        found |= _choose_names(export.query(names), traced)
    return tuple(found)


def _choose_names(rows: Iterable[Sequence[Any]], traced: Collection[int]) -> dict[str, None]:
    return {
        str(name): None
        for packed, name in rows
        if isinstance(packed, int) and packed > 0 and packed >> ID_BITS & ID_MASK in traced
    }


def read_diagnostics(export: Export, traced: Collection[int]) -> tuple[str, ...]:
    """Warnings and errors of the tool, in order of time; older versions keep none.

    Args:
        export: the file.
        traced: the processes that something was recorded from. Other processes without CUDA, such as compilers,
            are normal; their diagnostics are not damage, so each names its processes.

    Raises:
        TraceError: the file is damaged.
    """
    if not export.has("DIAGNOSTIC_EVENT", "timestamp", "severity", "text"):
        return ()
    process = "globalPid" if export.has("DIAGNOSTIC_EVENT", "globalPid") else "NULL"
    rows = export.query(
        f"SELECT text, {process} FROM DIAGNOSTIC_EVENT WHERE severity IN (?, ?) ORDER BY timestamp", WARNING, ERROR
    )
    processes: dict[str, list[str]] = {}
    for text, packed in rows:
        unrecorded = processes.setdefault(" ".join(str(text).split()), [])
        number = packed >> ID_BITS & ID_MASK if isinstance(packed, int) and packed > 0 else 0
        if traced and number and number not in traced:
            unrecorded.append(str(number))
    return tuple(
        f"{text} (process {', '.join(numbers)})" if numbers else text for text, numbers in processes.items()
    )


def names_process(diagnostic: str) -> bool:
    """Whether a diagnostic of `read_diagnostics` is about processes that nothing was recorded from."""
    return re.search(r" \(process [\d, ]+\)$", diagnostic) is not None
