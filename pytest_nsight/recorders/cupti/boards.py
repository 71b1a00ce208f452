"""The boards of this process by the driver's own account, as a trace has them."""

from __future__ import annotations

import ctypes

from pytest_nsight.model.trace_devices import MultiprocessorLimits, TraceDevice
from pytest_nsight.processes.machine import gpus

_WARP_THREADS = 10
_CLOCK_KHZ, _BUS_BITS = 36, 37
_MULTIPROCESSORS = 16
_THREADS, _MAJOR, _MINOR = 39, 75, 76
_SHARED_BYTES, _REGISTERS, _BLOCKS = 81, 82, 106
"""Numbers of cuda.h's CUdevice_attribute."""


def read_boards(process: int) -> tuple[TraceDevice, ...]:
    """The visible boards in CUDA's order, which is that of CUPTI's device ids; none where there is no driver.

    Args:
        process: id of this process.
    """
    found = gpus()
    driver = ctypes.CDLL("libcuda.so.1") if found else None
    return tuple(
        TraceDevice(
            process=process,
            ordinal=ordinal,
            uuid=gpu.uuid,
            name=gpu.name,
            bytes_per_s=_bandwidth(driver, ordinal),
            limits=_limits(driver, ordinal),
            multiprocessors=max(_attribute(driver, _MULTIPROCESSORS, ordinal), 0),
        )
        for ordinal, gpu in enumerate(found)
    )


def _attribute(driver: ctypes.CDLL | None, number: int, ordinal: int) -> int:
    """An attribute of a device; 0 where the driver does not know it."""
    value, device = ctypes.c_int(0), ctypes.c_int(0)
    if driver is None or driver.cuDeviceGet(ctypes.byref(device), ordinal):
        return 0
    failed = driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
    return 0 if failed else value.value


def _bandwidth(driver: ctypes.CDLL | None, ordinal: int) -> float | None:
    """Bytes per second: two transfers a clock over the whole width of the bus, as Nsight Systems reckons."""
    clock_hz = _attribute(driver, _CLOCK_KHZ, ordinal) * 1000
    return 2.0 * clock_hz * _attribute(driver, _BUS_BITS, ordinal) / 8 or None


def _limits(driver: ctypes.CDLL | None, ordinal: int) -> MultiprocessorLimits | None:
    """What a multiprocessor holds; None where the driver does not say."""
    threads, warp, blocks, registers, shared_bytes, major, minor = (
        _attribute(driver, number, ordinal)
        for number in (_THREADS, _WARP_THREADS, _BLOCKS, _REGISTERS, _SHARED_BYTES, _MAJOR, _MINOR)
    )
    if min(threads, warp, blocks, registers, shared_bytes) <= 0:
        return None
    return MultiprocessorLimits(threads // warp, blocks, registers, shared_bytes, (major, minor))
