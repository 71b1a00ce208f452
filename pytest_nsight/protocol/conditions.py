"""What the rounds of a case were measured under: rests, clocks, energy, other programs on the board and the CPU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from pytest_nsight.model.decoding import Bounds, Count

LIBRARIES = ("torch", "triton", "cupy", "jax", "numba")
"""What compiles or holds the kernels of tests: an environment names their versions."""


Amount = Annotated[float, Bounds(0, math.inf)]
"""A number that cannot be below zero."""


@dataclass(frozen=True, slots=True)
class NvmlSample:
    """What NVML reported right after a round; None where it cannot be read.

    Attributes:
        sm_mhz: SM clock.
        power_w: power draw.
        temperature_c: GPU temperature.
        reasons: names of the active slowdown reasons.
    """

    sm_mhz: Count | None = None
    power_w: Amount | None = None
    temperature_c: int | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """How the CPU's time was used: from some fixed moment until now, or between two moments.

    Attributes:
        elapsed_ns: time that passed.
        running_ns: CPU time of the process, all threads together.
        waiting_ns: time in which its threads could run and had no CPU; None where Linux does not say.
        stolen_ns: time that the hypervisor gave to other machines, mean of all CPUs; None where unknown.
        busy_ns: CPU time of all programs of the machine, this process among them.
        switches: how often the system took the CPU away from the process.
    """

    elapsed_ns: Count
    running_ns: Count
    waiting_ns: Count | None
    stolen_ns: Count | None
    busy_ns: Count
    switches: Count

    def since(self, earlier: CpuTimes) -> CpuTimes:
        """The use between an earlier moment and this one; a counter that stepped back counts as 0."""
        return CpuTimes(
            elapsed_ns=max(0, self.elapsed_ns - earlier.elapsed_ns),
            running_ns=max(0, self.running_ns - earlier.running_ns),
            waiting_ns=_grown(earlier.waiting_ns, self.waiting_ns),
            stolen_ns=_grown(earlier.stolen_ns, self.stolen_ns),
            busy_ns=max(0, self.busy_ns - earlier.busy_ns),
            switches=max(0, self.switches - earlier.switches),
        )

    @property
    def lost_share(self) -> float | None:
        """Share (0 to 1) of the time that the process could run in which it had no CPU.

        Other programs cost run-queue waiting, other virtual machines cost steal. None where neither is known.
        """
        if self.waiting_ns is None and self.stolen_ns is None:
            return None
        wanted_ns = self.running_ns + (self.waiting_ns or 0)
        waiting = (self.waiting_ns or 0) / wanted_ns if wanted_ns else 0.0
        stolen = min(1.0, (self.stolen_ns or 0) / self.elapsed_ns) if self.elapsed_ns else 0.0
        return 1 - (1 - waiting) * (1 - stolen)


def _grown(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, after - before)


@dataclass(frozen=True, slots=True)
class BoardActivity:
    """What else happens on the board at a moment.

    Attributes:
        energy_mj: energy drawn since the driver was loaded, None where it cannot be read.
        foreign_processes: processes that compute there and are not the session's, such as "pid 123 (python)".
        processor: how the CPU has been used so far; None where a GPU is measured.
    """

    energy_mj: Count | None = None
    foreign_processes: tuple[str, ...] = ()
    processor: CpuTimes | None = None

    def energy_since(self, before: BoardActivity) -> int | None:
        """The energy drawn since then, in mJ; None where it cannot be read."""
        if self.energy_mj is None or before.energy_mj is None:
            return None
        return self.energy_mj - before.energy_mj


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions under which the rounds of one case were measured.

    Attributes:
        case: node id.
        busy_ns: how long a round and the flush of the cache kept the device busy in the warm-up.
        settled_ns: time waited for the clock to recover before the first round.
        rest_ns: pause before the first round.
        last_rest_ns: pause before the last round; longer if this case slowed the board down, or if the board has
            not recovered from earlier work.
        error: relative standard error of the rounds by the host's durations, None if they are too short for it.
        elapsed_ns: time from the first pause to the end of the last round.
        energy_mj: energy that the board drew in this time, None where it cannot be read.
        foreign_processes: foreign processes on the board before or after.
        processor: how the CPU was used meanwhile; None where a GPU was measured.
    """

    case: str
    busy_ns: Count
    settled_ns: Count
    rest_ns: Count
    last_rest_ns: Count
    error: float | None
    elapsed_ns: Count
    energy_mj: Count | None
    foreign_processes: tuple[str, ...]
    processor: CpuTimes | None = None
