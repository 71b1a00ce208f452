"""The boards of a trace: which process calls which board how, and what their multiprocessors hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MultiprocessorLimits:
    """What one multiprocessor of a device holds at a time.

    Attributes:
        warps: most resident warps.
        blocks: most resident blocks.
        registers: 32-bit registers.
        shared_bytes: shared memory; 0 where the tool does not record it.
        capability: compute capability, (9, 0) for an H100.
    """

    warps: int
    blocks: int
    registers: int
    shared_bytes: int
    capability: tuple[int, int]

    @property
    def reserved_bytes(self) -> int:
        """Shared memory that the system takes of each block: 1 KiB from compute capability 8 on."""
        return 1024 if self.capability >= (8, 0) else 0

    @property
    def shared_unit(self) -> int:
        """Bytes in which shared memory is handed out: 128 from compute capability 8 on, else 256."""
        return 128 if self.capability >= (8, 0) else 256


@dataclass(frozen=True, slots=True)
class TraceDevice:
    """Which board a process calls by an ordinal.

    Attributes:
        process: process id, None if the tool numbers the boards alike for all processes.
        ordinal: CUDA's number of the device in that process.
        uuid: as NVML writes it, "GPU-" and 36 characters; "" if unknown.
        name: the product.
        bytes_per_s: its memory bandwidth, None where the tool does not record it.
        limits: of its multiprocessors, None where the tool does not record them.
        multiprocessors: how many it has, 0 where the tool does not record that.
        memory_bytes: its memory, 0 where the tool does not record that.
    """

    process: int | None
    ordinal: int
    uuid: str
    name: str
    bytes_per_s: float | None = None
    limits: MultiprocessorLimits | None = None
    multiprocessors: int = 0
    memory_bytes: int = 0
