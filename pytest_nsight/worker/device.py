"""The device that a case runs on: what the rounds need of it, and which one it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Protocol

from pytest_nsight.processes.machine import cpu_name, memory_settings
from pytest_nsight.protocol.conditions import BoardActivity, NvmlSample
from pytest_nsight.worker.canaries import Canary
from pytest_nsight.worker.cuda_driver import load_driver
from pytest_nsight.worker.gpu_devices import DriverGpu, TorchGpu
from pytest_nsight.worker.host_state import read_cpu_times
from pytest_nsight.worker.library_versions import read_library_versions


class Device(Protocol):
    """What the rounds need of a device.

    Attributes:
        name: product name, such as "NVIDIA H200".
        board: UUID of the GPU, or the CPU's name where there is none.
        needs_rest: whether its clock depends on how busy it has been.
        environment: what a measurement on it depends on, as names and values.
        canaries: the canaries for it; none on a CPU, whose noise exceeds what they could show.
        why_no_canaries: a sentence on why canaries are missing that should be there; else "".
        power_limit_w: the power limit in force, None if unknown.
        run_sd: standard deviation of log time that runs of unchanged code are expected to have here.
    """

    name: str
    board: str
    needs_rest: bool
    environment: Mapping[str, str]
    canaries: tuple[Canary, ...]
    why_no_canaries: str
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

    def isolate(self) -> None:
        """Makes what the next case allocates independent of the cases before it."""

    def count_memory_retries(self) -> int:
        """How often the allocator has given back all that it had cached, because the device's memory was short."""

    def launch_little(self) -> None:
        """Gives the device next to nothing to do."""

    def read_activity(self) -> BoardActivity:
        """Reads what other programs do on the board."""

    def has_room_to_keep(self) -> bool:
        """Whether memory that is allocated now may stay allocated while the next case is measured."""


class CpuDevice:
    """The CPU, where there is no GPU: its operators are what is measured."""

    needs_rest = False
    canaries: tuple[Canary, ...] = ()
    why_no_canaries = ""
    power_limit_w: float | None = None
    run_sd = 0.03

    def __init__(self) -> None:
        self.name = cpu_name()
        self.board = f"{self.name}, {os.cpu_count()} threads"
        torch = sys.modules.get("torch")
        threads = str(torch.get_num_threads()) if torch else str(os.cpu_count())
        self.environment: Mapping[str, str] = {
            "cpu": self.name,
            "threads": threads,
            "malloc": memory_settings(os.environ),
            **read_library_versions(),
        }

    def synchronize(self) -> None:
        """Does nothing: operators return when they are done."""

    def flush(self) -> None:
        """Does nothing: emptying a CPU's caches would add more noise than it removes."""

    def read(self) -> NvmlSample:
        """Reads nothing."""
        return NvmlSample()

    def release(self) -> None:
        """Does nothing."""

    def isolate(self) -> None:
        """Does nothing."""

    def count_memory_retries(self) -> int:
        """None: its allocator caches nothing."""
        return 0

    def launch_little(self) -> None:
        """Does nothing."""

    def read_activity(self) -> BoardActivity:
        """Reads how the CPU has been used."""
        return BoardActivity(processor=read_cpu_times())

    def has_room_to_keep(self) -> bool:
        """No: claims are about GPU kernels, so there is nothing to keep bodies for."""
        return False


def current_device(root_pid: int = 0) -> Device:
    """The GPU that this process uses, or the CPU where there is none.

    Torch drives the GPU if the process has imported it: only torch can empty its allocator, and the stored
    baselines hold torch's canaries. Otherwise the CUDA driver drives the GPU.

    Args:
        root_pid: the controller; processes below it belong to the session.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return TorchGpu(torch, root_pid)
    driver = load_driver()
    return CpuDevice() if driver is None else DriverGpu(driver, root_pid)
