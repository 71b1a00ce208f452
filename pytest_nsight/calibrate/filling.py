"""Fills a pool from a live gate, run by run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_nsight.calibrate.pool import Pool, write_pool
from pytest_nsight.model import Policy, RunSummary

_WRITING_SHARE = 0.02


def fill_pool(
    measure: Callable[[int], None],
    measured: Callable[[], Sequence[RunSummary]],
    policies: Mapping[str, Policy],
    path: Path,
    *,
    runs: int,
    minutes: float | None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Measures and writes as it goes, so that whatever ends it, the file holds nearly all that was measured.

    Args:
        measure: measures every case in this many fresh processes.
        measured: all that has been measured so far, canaries included.
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
            measure(1)
            taken_s = clock() - start_s
            longest_s = max(longest_s, taken_s)
            for run in {summary.run for summary in measured()} - seconds.keys():
                seconds[run] = taken_s
            # Writing takes longer the more there is; it may cost a fiftieth of the time, no more.
            if writing_s <= _WRITING_SHARE * (clock() - written_s):
                start_s = clock()
                write_pool(path, Pool(tuple(measured()), policies, seconds))
                written_s = clock()
                writing_s = written_s - start_s
    finally:
        if measured():
            write_pool(path, Pool(tuple(measured()), policies, seconds))
