"""A GPU made of arithmetic: a clock, a power limit, and time that passes only when something happens."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_nsight.protocol.conditions import BoardActivity, NvmlSample
from pytest_nsight.worker import rounds

HIGHEST_MHZ = 1980
LIMIT_W = 700.0
IDLE_W = 120.0
WINDOW_NS = 30e6
"""Over which the board averages its power."""

READ_NS = 150_000
FLUSH_NS = 30_000
LAUNCH_NS = 12_000


class Silent:
    """A recorder that records nothing."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def push(self, name: str, payload: int) -> None: ...

    def pop(self) -> None: ...


class Board:
    """Draws power by the cube of its clock, and lowers the clock when the average reaches the limit."""

    name = "NVIDIA Model"
    board = "GPU-model"
    needs_rest = True
    run_sd = 0.001
    canaries: tuple[Any, ...] = ()
    why_no_canaries = ""

    def __init__(self, *, foreign_processes: tuple[str, ...] = (), locked_mhz: int = HIGHEST_MHZ) -> None:
        self.environment: dict[str, str] = {}
        self.power_limit_w: float | None = LIMIT_W
        self.now_ns = 0
        self.mean_w = IDLE_W
        self.energy_j = 0.0
        self.mhz = self.locked_mhz = locked_mhz
        self.foreign_processes = foreign_processes

    def pass_time(self, duration_ns: float, power_w: float = IDLE_W) -> None:
        """Lets time go by at a power."""
        self.now_ns += round(duration_ns)
        self.energy_j += power_w * duration_ns / 1e9
        kept = math.exp(-duration_ns / WINDOW_NS)
        self.mean_w = self.mean_w * kept + power_w * (1 - kept)
        step = 15 if self.mean_w < 0.9 * LIMIT_W else (-60 if self.mean_w > LIMIT_W else 0)
        self.mhz = max(900, min(self.locked_mhz, self.mhz + step))

    def work(self, duration_ns: float, *, full_w: float, is_bound_by_clock: bool = True) -> None:
        """Runs a kernel that takes `duration_ns` and draws `full_w` at the highest clock."""
        ratio = self.mhz / HIGHEST_MHZ
        slowed_ns = duration_ns / ratio if is_bound_by_clock else duration_ns
        self.pass_time(slowed_ns + LAUNCH_NS, IDLE_W + (full_w - IDLE_W) * ratio**3)

    def synchronize(self) -> None: ...

    def flush(self) -> None:
        self.pass_time(FLUSH_NS, 500)

    def read(self) -> NvmlSample:
        self.pass_time(READ_NS)
        reasons = ("software power cap",) if self.mhz < self.locked_mhz and self.mean_w > 0.9 * LIMIT_W else ()
        return NvmlSample(self.mhz, self.mean_w, 40, reasons)

    def release(self) -> None: ...

    def isolate(self) -> None: ...

    def count_memory_retries(self) -> int:
        return 0

    def launch_little(self) -> None:
        self.pass_time(LAUNCH_NS)

    def read_activity(self) -> BoardActivity:
        return BoardActivity(round(self.energy_j * 1000), self.foreign_processes)

    def keep_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Makes the rounds run on the board's time."""
        monkeypatch.setattr(rounds, "perf_counter_ns", lambda: self.now_ns)
        monkeypatch.setattr(rounds, "time_ns", lambda: self.now_ns)
        monkeypatch.setattr(rounds, "sleep", lambda seconds: self.pass_time(seconds * 1e9))
