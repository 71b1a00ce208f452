"""The boards that a trace of the PyTorch profiler lists, and what `show --perfetto` adds to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.trace_devices import MultiprocessorLimits, TraceDevice

_PROPERTIES = ("deviceProperties", "computeProperties")
"""Where the boards are listed; the second is the name of the first versions."""
_WARP = 32
_MOST_MULTIPROCESSORS = 2**16
_LARGEST = 2**62
_BLOCKS = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24, (12, 0): 24}
"""Most resident blocks by compute capability, where they are not 32."""


def read_boards(document: object, trace: Trace) -> tuple[TraceDevice, ...]:
    """The boards that the profiler lists, as its process numbers them; a field that it lacks is unknown.

    Where it lists none, those of the trace, or none if several processes may have numbered them differently.

    Args:
        document: decoded JSON.
        trace: what the events of the document say.
    """
    listed = _list(document)
    if not listed:
        is_shared = not trace.is_of_cpu and len(distinct(trace.launches.process)) > 1
        return () if is_shared else trace.devices
    # A list of several processes has one number for several boards.
    is_of_one = len({one["id"] for one in listed}) == len(listed)
    process_of = _find_processes(trace) if is_of_one else {}
    processes = distinct(trace.launches.process).tolist()
    only = processes[0] if is_of_one and len(processes) == 1 else None
    return tuple(
        TraceDevice(
            one["process"] if _is_number(one.get("process")) else process_of.get(one["id"], only),
            one["id"],
            str(one.get("uuid", "")) if _is_number(one.get("process")) else "",
            str(one.get("name", "")),
            None,
            _read_limits(one),
            _read_multiprocessors(one),
        )
        for one in listed
    )


def read_owners(document: object) -> dict[int, int]:
    """Process id of a device's events -> process that launched them, as `show --perfetto` writes it.

    Args:
        document: decoded JSON.
    """
    stated = [one for one in _list(document) if _is_number(one.get("track")) and _is_number(one.get("process"))]
    return {one["track"]: one["process"] for one in stated}


def _find_processes(trace: Trace) -> dict[int, int]:
    """Number of a device -> the process that launched on it, where just one did."""
    launches = trace.launches
    users: dict[int, set[int]] = {}
    for process in distinct(launches.process).tolist():
        for device in distinct(launches.device[launches.process == process]).tolist():
            users.setdefault(device, set()).add(process)
    return {device: processes.pop() for device, processes in users.items() if len(processes) == 1}


def _list(document: object) -> list[dict[str, Any]]:
    tables = [document.get(key) for key in _PROPERTIES] if isinstance(document, dict) else []
    properties = next((table for table in tables if isinstance(table, list)), [])
    return [one for one in properties if isinstance(one, dict) and isinstance(one.get("id"), int)]


def _is_number(value: object) -> bool:
    return type(value) is int and abs(value) < _LARGEST


def _read_multiprocessors(device: Mapping[str, object]) -> int:
    count = device.get("numSms")
    return count if isinstance(count, int) and 0 < count < _MOST_MULTIPROCESSORS else 0


def _read_limits(device: Mapping[str, object]) -> MultiprocessorLimits | None:
    names = (
        "maxThreadsPerMultiprocessor", "regsPerMultiprocessor", "sharedMemPerMultiprocessor", "computeMajor",
        "computeMinor",
    )  # fmt: skip
    values = [device.get(name) for name in names]
    numbers = [value for value in values if isinstance(value, int) and value >= 0]
    if len(numbers) < len(names) or not all(numbers[:4]):
        return None
    threads, registers, shared_bytes, major, minor = numbers
    blocks = _BLOCKS.get((major, minor), 32)
    return MultiprocessorLimits(threads // _WARP, blocks, registers, shared_bytes, (major, minor))
