"""GPUs as the rounds need them: driven through torch where the test uses it, else through the CUDA driver."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pytest_nsight.protocol.conditions import BoardActivity, NvmlSample
from pytest_nsight.worker.allocator_state import LeftRoom, count_retries
from pytest_nsight.worker.canaries import Canary, make_canaries
from pytest_nsight.worker.compiled_canaries import VERSION, make_compiled_canaries
from pytest_nsight.worker.cuda_driver import CudaDriver, DeviceBuffer
from pytest_nsight.worker.library_versions import read_library_versions
from pytest_nsight.worker.nvml import Nvml, list_foreign_processes, name_of, parent_of

MOST_KEPT_BYTES = 4 << 30


class TorchGpu:
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
        self._left_room = LeftRoom(torch)
        self._l2_bytes = int(properties.L2_cache_size)
        self.environment: Mapping[str, str] = {
            "gpu": self.name,
            "cuda": str(torch.version.cuda),
            **self._nvml.environment(),
            **read_library_versions(),
        }
        # Not the compiled ones, which would do: stored runs are compared by canaries of torch's (decision 22).
        self.canaries: tuple[Canary, ...] = make_canaries(torch, "cuda", self._l2_bytes)
        self.why_no_canaries = ""

    @cached_property
    def _spill(self) -> Any:
        # Twice the cache: one sweep of exactly its size leaves lines behind. A pass that never flushes has none.
        return self._torch.empty(2 * self._l2_bytes, dtype=self._torch.uint8, device="cuda")

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

    def isolate(self) -> None:
        """Empties the cache, and holds the free blocks that are left in used segments."""
        self._left_room.hold()

    def count_memory_retries(self) -> int:
        """Asks torch's allocator."""
        return count_retries(self._torch)

    def launch_little(self) -> None:
        """Writes one element."""
        self._spill[:1].fill_(1)

    def read_activity(self) -> BoardActivity:
        """Asks NVML for energy and processes."""
        return _read_activity(self._nvml, self._root_pid)

    def has_room_to_keep(self) -> bool:
        """A small part of the memory, so that the next case hardly notices."""
        most_bytes = min(MOST_KEPT_BYTES, self._memory_bytes // 16)
        return bool(self._torch.cuda.memory_allocated() <= most_bytes)


class DriverGpu:
    """A CUDA device, driven through the driver's C interface and watched through NVML."""

    needs_rest = True
    run_sd = 0.001

    def __init__(self, driver: CudaDriver, root_pid: int) -> None:
        self._driver = driver
        self._root_pid = root_pid
        self._left_room: LeftRoom | None = None
        self.name = driver.name
        self.board = driver.uuid
        self._nvml = Nvml(self.board)
        self.power_limit_w = self._nvml.power_limit_w()
        # Twice the cache: one sweep of exactly its size leaves lines behind.
        self._spill = DeviceBuffer(driver, 2 * driver.l2_bytes)
        self._free_bytes = driver.read_free_bytes()
        compiled = make_compiled_canaries(driver)
        self.canaries, self.why_no_canaries = compiled.canaries, compiled.why_none
        self.environment: Mapping[str, str] = {
            "gpu": self.name,
            "cuda": driver.version,
            "canaries": f"CUDA C {VERSION}, {compiled.compiler}" if compiled.compiler else "none",
            **self._nvml.environment(),
            **read_library_versions(),
        }

    def synchronize(self) -> None:
        """Waits for all streams of the device."""
        self._driver.synchronize()

    def flush(self) -> None:
        """Clears a buffer of twice the L2 cache."""
        self._driver.clear(self._spill)

    def read(self) -> NvmlSample:
        """Asks NVML."""
        return self._nvml.read()

    def release(self) -> None:
        """Empties the allocators of the frameworks that the process has imported."""
        torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
        if torch is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        if cupy is not None:
            cupy.get_default_memory_pool().free_all_blocks()

    def isolate(self) -> None:
        """Empties the frameworks' allocators, and holds the free blocks that are left in torch's used segments."""
        self.release()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            self._left_room = self._left_room or LeftRoom(torch)
            self._left_room.hold()

    def count_memory_retries(self) -> int:
        """Asks torch's allocator, where the process has one."""
        torch = sys.modules.get("torch")
        return count_retries(torch) if torch is not None and torch.cuda.is_initialized() else 0

    def launch_little(self) -> None:
        """Clears four bytes."""
        self._driver.clear(self._spill, 4)

    def read_activity(self) -> BoardActivity:
        """Asks NVML for energy and processes."""
        return _read_activity(self._nvml, self._root_pid)

    def has_room_to_keep(self) -> bool:
        """Whether the process has taken little memory so far, so that the next case hardly notices."""
        most_bytes = min(MOST_KEPT_BYTES, self._driver.memory_bytes // 16)
        return self._free_bytes - self._driver.read_free_bytes() <= most_bytes


def _read_activity(nvml: Nvml, root_pid: int) -> BoardActivity:
    foreign = list_foreign_processes(nvml.pids(), os.getpid(), root_pid, parent_of, name_of)
    return BoardActivity(nvml.energy_mj(), foreign)
