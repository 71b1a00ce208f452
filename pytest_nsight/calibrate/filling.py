"""Fills a pool from a live gate, run by run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from pytest_nsight.calibrate.pool import Pool, write_pool
from pytest_nsight.model import Policy, RunSummary

_WRITING_SHARE = 0.02


class Measuring(Protocol):
    """What a pool needs of the gate."""

    def measure(self, runs: int) -> None:
        """Measures every case in this many fresh processes."""

    def accepted(self) -> tuple[RunSummary, ...]:
        """What has been measured of cases that passed."""


def fill_pool(
    gate: Measuring,
    policies: Mapping[str, Policy],
    path: Path,
    *,
    runs: int,
    minutes: float | None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Measures and writes as it goes, so that whatever ends it, the file holds nearly all that was measured.

    Args:
        gate: measures.
        policies: case -> what its verdict must obey.
        path: the pool's file.
        runs: at most this many runs.
        minutes: no run is begun that would probably end later than this; None for no limit.
        clock: seconds.

    Raises:
        BaselineError: the file cannot be written.
    """
    began_s, longest_s, written_s, writing_s = clock(), 0.0, clock(), 0.0
    seconds: dict[str, float] = {}
    try:
        for _ in range(runs):
            start_s = clock()
            if minutes is not None and start_s + longest_s - began_s > 60 * minutes:
                break
            gate.measure(1)
            taken_s = clock() - start_s
            longest_s = max(longest_s, taken_s)
            for run in {summary.run for summary in gate.accepted()} - seconds.keys():
                seconds[run] = taken_s
            # Writing takes longer the more there is; it may cost a fiftieth of the time, no more.
            if writing_s <= _WRITING_SHARE * (clock() - written_s):
                start_s = clock()
                write_pool(path, Pool(gate.accepted(), policies, seconds))
                written_s = clock()
                writing_s = written_s - start_s
    finally:
        if gate.accepted():
            write_pool(path, Pool(gate.accepted(), policies, seconds))
