"""Hardware counters of one kernel in a round, as a profiler of kernels reads them. Inert values."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class Counter(enum.Enum):
    """What is read of a kernel; the values are names in stored files."""

    SM_THROUGHPUT = "sm_throughput"
    """Percent of the multiprocessors' peak."""
    MEMORY_THROUGHPUT = "memory_throughput"
    """Percent of the peak of whichever part of the memory system is busiest."""
    OCCUPANCY = "occupancy"
    """Achieved: resident warps in percent of the most that a multiprocessor holds."""
    L2_HIT_RATE = "l2_hit_rate"
    """Percent of the sectors that the L2 cache had."""
    DRAM_BYTES = "dram_bytes"
    """Read from and written to device memory."""
    REGISTERS = "registers"
    """Of a thread."""
    LOCAL_BYTES = "local_bytes"
    """Read from and written to local memory: registers that were spilled, and arrays without a fixed index."""
    SHARED_BYTES = "shared_bytes"
    """Shared memory of a block."""
    SECTORS_PER_REQUEST = "sectors_per_request"
    """Sectors of 32 bytes that a warp's access to global memory takes; 4 where it reads 128 bytes in a row."""


@dataclass(frozen=True, slots=True)
class KernelCounters:
    """The counters of one kernel: medians over its profiled launches.

    Attributes:
        kernel: its function's name, without template arguments.
        launches: how many were profiled.
        values: name of a Counter -> value; a counter that the board lacks is absent.
    """

    kernel: str
    launches: int
    values: Mapping[str, float]

    def get(self, counter: Counter) -> float | None:
        """The value of a counter, None where it was not read."""
        return self.values.get(counter.value)


@dataclass(frozen=True, slots=True)
class CaseCounters:
    """What was read of the kernels of one case.

    Attributes:
        case: node id of its test.
        source: whose they are, in words.
        kernels: in order of name.
    """

    case: str
    source: str
    kernels: tuple[KernelCounters, ...]

    def find(self, kernel: str) -> KernelCounters | None:
        """The counters of the kernel of that name."""
        return next((one for one in self.kernels if one.kernel == kernel), None)
