"""Which GPUs the CUDA driver offers, asked without torch and without making a context."""

from __future__ import annotations

import ctypes

_NAME_BYTES = 256


def gpu_names() -> tuple[str, ...]:
    """Products of the visible CUDA devices, in CUDA's order; none where there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ()
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return ()
    names = []
    for ordinal in range(count.value):
        name = ctypes.create_string_buffer(_NAME_BYTES)
        device = ctypes.c_int(0)
        driver.cuDeviceGet(ctypes.byref(device), ordinal)
        driver.cuDeviceGetName(name, _NAME_BYTES, device)
        names.append(name.value.decode(errors="replace"))
    return tuple(names)
