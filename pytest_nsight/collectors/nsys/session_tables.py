"""The small tables of an export: which tool wrote it, when, on which boards, and what it complained of."""

from __future__ import annotations

from collections.abc import Collection

from pytest_nsight.collectors.nsys.columns import ID_BITS, ID_MASK
from pytest_nsight.collectors.nsys.open_export import Export
from pytest_nsight.model.trace import TraceDevice

METADATA_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA")
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
    """The boards, per process where the export tells (from 2025), else one numbering for all processes.

    Args:
        export: the file.

    Raises:
        TraceError: the file is damaged.
    """
    if not export.has("TARGET_INFO_GPU", "id", "name", "uuid", "cuDevice"):
        return ()
    bandwidth = "memoryBandwidth" if export.has("TARGET_INFO_GPU", "memoryBandwidth") else "NULL"
    boards = export.query(f"SELECT id, cuDevice, uuid, name, {bandwidth} FROM TARGET_INFO_GPU")
    devices = [
        TraceDevice(None, ordinal, _uuid(uuid), str(name), _bandwidth(told))
        for _, ordinal, uuid, name, told in boards
    ]
    if export.has("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId", "pid"):
        by_id = {board: (_uuid(uuid), str(name), _bandwidth(told)) for board, _, uuid, name, told in boards}
        mapping = export.query("SELECT DISTINCT pid, cudaId, gpuId FROM TARGET_INFO_CUDA_DEVICE")
        devices = [
            TraceDevice(process, ordinal, *by_id[board]) for process, ordinal, board in mapping if board in by_id
        ] or devices
    return tuple(devices)


def _uuid(stored: object) -> str:
    """NVML writes "GPU-" before what nsys stores."""
    text = str(stored or "")
    return f"GPU-{text}" if text and not text.startswith(("GPU-", "MIG-")) else text


def _bandwidth(stored: object) -> float | None:
    return float(stored) if isinstance(stored, (int, float)) and stored > 0 else None


def read_diagnostics(export: Export, traced: Collection[int]) -> tuple[str, ...]:
    """Warnings and errors of the tool, in order of time; older versions keep none.

    Args:
        export: the file.
        traced: the processes of which something was recorded. Others, such as helpers that compile, are named
            beside what is said of them: that they used no CUDA does not mean that nothing did.

    Raises:
        TraceError: the file is damaged.
    """
    if not export.has("DIAGNOSTIC_EVENT", "timestamp", "severity", "text"):
        return ()
    process = "globalPid" if export.has("DIAGNOSTIC_EVENT", "globalPid") else "NULL"
    rows = export.query(
        f"SELECT text, {process} FROM DIAGNOSTIC_EVENT WHERE severity IN (?, ?) ORDER BY timestamp", WARNING, ERROR
    )
    told: dict[str, list[str]] = {}
    for text, packed in rows:
        others = told.setdefault(" ".join(str(text).split()), [])
        number = packed >> ID_BITS & ID_MASK if isinstance(packed, int) and packed > 0 else 0
        if traced and number and number not in traced:
            others.append(str(number))
    return tuple(f"{text} (process {', '.join(others)})" if others else text for text, others in told.items())
