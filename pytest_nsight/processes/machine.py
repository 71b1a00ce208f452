"""Which GPUs the CUDA driver offers, and which CPU this is; asked without torch and without a context."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_NAME_BYTES = 256


@dataclass(frozen=True, slots=True)
class Gpu:
    """A visible GPU.

    Attributes:
        name: the product.
        uuid: what CUDA_VISIBLE_DEVICES takes to choose it, and it alone.
    """

    name: str
    uuid: str


def gpu_names() -> tuple[str, ...]:
    """Products of the visible CUDA devices, in CUDA's order; none where there is no driver."""
    return tuple(gpu.name for gpu in gpus())


def gpus() -> tuple[Gpu, ...]:
    """The visible CUDA devices, in CUDA's order; none where there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ()
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return ()
    # A part of a GPU has the name that the user has called it by: the driver gives it without its kind.
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    parts = visible if any(word.startswith("MIG-") for word in visible) else []
    found = []
    for ordinal in range(count.value):
        name = ctypes.create_string_buffer(_NAME_BYTES)
        device = ctypes.c_int(0)
        driver.cuDeviceGet(ctypes.byref(device), ordinal)
        driver.cuDeviceGetName(name, _NAME_BYTES, device)
        identity = parts[ordinal] if ordinal < len(parts) else _uuid(driver, device)
        found.append(Gpu(name.value.decode(errors="replace"), identity))
    return tuple(found)


def _uuid(driver: ctypes.CDLL, device: ctypes.c_int) -> str:
    stored = (ctypes.c_ubyte * 16)()
    driver.cuDeviceGetUuid(ctypes.byref(stored), device)
    return f"GPU-{uuid.UUID(bytes=bytes(stored))}"


@functools.cache
def cpu_name() -> str:
    """The CPU's product name; /proc knows it better than platform does.

    A process asks before its first test, which may replace what reads files.
    """
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


_MEMORY_VARIABLES = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**36), "MALLOC_TOP_PAD_": str(2**26)}
"""They make glibc keep the memory that a round frees (`man 3 mallopt`)."""

_TUNABLES = "GLIBC_TUNABLES"
_NO_THREAD_CACHE = "glibc.malloc.tcache_count=0"
"""Lets the next round use the memory that glibc has kept. An aligned block, as torch asks for, is cut from a larger
one; glibc 2.36 leaves the ends in the thread's cache, where nothing joins them to the block again, and the heap
grows with each round (https://sourceware.org/bugzilla/show_bug.cgi?id=14581)."""

_MEMORY_CHOICES = ("mmap_max", "mmap_threshold", "trim_threshold", "top_pad", "tcache_count")
"""Settings of glibc's malloc that say which memory it keeps: tunables, and most of them variables, too."""


def cpu_variables(threads: int | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Environment variables of a process whose operators on the CPU are measured.

    Several threads wait for one another, so that whatever else runs on one CPU delays them all. And memory
    that is new from Linux costs a page fault for each 4 KiB: whether glibc gives it back, or takes new memory
    beside what is free, depends on what the process did before, and one operator then takes up to four times as
    long.

    Args:
        threads: threads of an operator as the user wants it; None for what $OMP_NUM_THREADS says already, else 1.
        environ: the environment that they are added to; if it says when malloc keeps memory, all of that stays.
    """
    found: dict[str, str] = {}
    if threads is not None or not environ.get("OMP_NUM_THREADS", "").isdigit():
        found |= dict.fromkeys(_THREAD_VARIABLES, str(threads or 1))
    if not memory_settings(environ):
        tunables = environ.get(_TUNABLES, "").strip(":")
        found |= {**_MEMORY_VARIABLES, _TUNABLES: ":".join(filter(None, [tunables, _NO_THREAD_CACHE]))}
    return found


def memory_settings(environ: Mapping[str, str]) -> str:
    """What an environment says of the memory that glibc's malloc keeps: `mmap_max=0, top_pad=67108864`.

    Args:
        environ: of a process.

    Returns:
        "" if it says nothing.
    """
    tunables = dict(one.partition("=")[::2] for one in environ.get(_TUNABLES, "").split(":"))
    # As in glibc, a tunable counts more than the older variable.
    given = {
        name: tunables.get(f"glibc.malloc.{name}") or environ.get(f"MALLOC_{name.upper()}_", "")
        for name in _MEMORY_CHOICES
    }
    return ", ".join(f"{name}={value}" for name, value in given.items() if value)


def measured_product() -> str:
    """The product whose baselines count here: the first visible GPU, or the CPU where there is none."""
    return next(iter(gpu_names()), cpu_name())
