"""The device that a case runs on: synchronise it, empty its cache, name it, read its clocks."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from pytest_nsight import __version__
from pytest_nsight.collectors.machine import processor
from pytest_nsight.protocol.manifest_events import BoardActivity, NvmlSample
from pytest_nsight.worker.canaries import Canary, make_canaries
from pytest_nsight.worker.nvml import Nvml, list_foreign_processes, name_of, parent_of
from pytest_nsight.worker.processor_load import read_processor_times

MOST_KEPT_BYTES = 4 << 30


class Device(Protocol):
    """What the rounds need of a device.

    Attributes:
        name: product name, such as "NVIDIA H200".
        board: UUID of the GPU, or the processor's name where there is none.
        needs_rest: whether its clock depends on how busy it has been.
        environment: what a measurement on it depends on, as names and values.
        canaries: the canaries for it; none on a processor, whose noise exceeds what they could show.
        power_limit_w: the power limit in force, None if unknown.
        run_sd: standard deviation of log time that runs of unchanged code are expected to have here.
    """

    name: str
    board: str
    needs_rest: bool
    environment: Mapping[str, str]
    canaries: tuple[Canary, ...]
    power_limit_w: float | None
    run_sd: float

    def synchronize(self) -> None:
        """Waits until the device has done all its work."""

    def flush(self) -> None:
        """Evicts everything from the device's cache."""

    def read(self) -> NvmlSample:
        """Reads clock, power, temperature and slowdown reasons."""

    def release(self) -> None:
        """Gives back memory that no tensor uses any more."""

    def launch_little(self) -> None:
        """Gives the device next to nothing to do."""

    def read_activity(self) -> BoardActivity:
        """Reads what else goes on on the board."""

    def has_room_to_keep(self) -> bool:
        """Whether what is allocated now may stay so while the next case is measured."""


class CudaDevice:
    """The current CUDA device, driven through torch and watched through NVML."""

    needs_rest = True
    run_sd = 0.001

    def __init__(self, torch: Any, root_pid: int) -> None:
        self._root_pid = root_pid
        self._torch = torch
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.name: str = properties.name
        self._memory_bytes = int(properties.total_memory)
        self.board = f"GPU-{properties.uuid}"
        self._nvml = Nvml(self.board)
        self.power_limit_w = self._nvml.power_limit_w()
        # Twice the cache: one sweep of exactly its size leaves lines behind.
        self._spill = torch.empty(2 * properties.L2_cache_size, dtype=torch.uint8, device="cuda")
        self.environment: Mapping[str, str] = {
            "gpu": self.name,
            "cuda": str(torch.version.cuda),
            **self._nvml.environment(),
            **_versions(),
        }
        self.canaries = make_canaries(torch, "cuda", properties.L2_cache_size)

    def synchronize(self) -> None:
        """Waits for all streams of the device."""
        self._torch.cuda.synchronize()

    def flush(self) -> None:
        """Overwrites a buffer of twice the L2 cache."""
        self._spill.zero_()

    def read(self) -> NvmlSample:
        """Asks NVML."""
        return self._nvml.read()

    def release(self) -> None:
        """Empties the allocator's cache."""
        self._torch.cuda.empty_cache()

    def launch_little(self) -> None:
        """Writes one element."""
        self._spill[:1].fill_(1)

    def read_activity(self) -> BoardActivity:
        """Asks NVML for energy and processes."""
        foreign = list_foreign_processes(self._nvml.pids(), os.getpid(), self._root_pid, parent_of, name_of)
        return BoardActivity(self._nvml.energy_mj(), foreign)

    def has_room_to_keep(self) -> bool:
        """A small part of the memory, so that the next case hardly notices."""
        most_bytes = min(MOST_KEPT_BYTES, self._memory_bytes // 16)
        return bool(self._torch.cuda.memory_allocated() <= most_bytes)


class CpuDevice:
    """The processor, where there is no GPU: its operators are what is measured."""

    needs_rest = False
    canaries: tuple[Canary, ...] = ()
    power_limit_w: float | None = None
    run_sd = 0.03

    def __init__(self) -> None:
        self.name = processor()
        self.board = f"{self.name}, {os.cpu_count()} threads"
        torch = sys.modules.get("torch")
        threads = str(torch.get_num_threads()) if torch else str(os.cpu_count())
        self.environment: Mapping[str, str] = {"cpu": self.name, "threads": threads, **_versions()}

    def synchronize(self) -> None:
        """Does nothing: operators return when they are done."""

    def flush(self) -> None:
        """Does nothing: there is no way to empty a processor's caches that is worth its noise."""

    def read(self) -> NvmlSample:
        """Reads nothing."""
        return NvmlSample()

    def release(self) -> None:
        """Does nothing."""

    def launch_little(self) -> None:
        """Does nothing."""

    def read_activity(self) -> BoardActivity:
        """Reads how the processor has been used."""
        return BoardActivity(processor=read_processor_times())

    def has_room_to_keep(self) -> bool:
        """No: claims are about GPU kernels, so there is nothing to keep bodies for."""
        return False


def current_device(root_pid: int = 0) -> Device:
    """The GPU that torch uses in this process, or the processor.

    Args:
        root_pid: the outer pytest; processes below it belong to the session.
    """
    try:
        import torch  # noqa: PLC0415 - heavy, and only a measuring process needs it
    except ImportError:
        return CpuDevice()
    return CudaDevice(torch, root_pid) if torch.cuda.is_available() else CpuDevice()


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "plugin": __version__}
    for name in ("torch", "triton"):
        if name in sys.modules:
            versions[name] = str(getattr(sys.modules[name], "__version__", ""))
    return versions
