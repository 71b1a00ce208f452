"""Lets the ranks of a case begin each round together, whatever they did since the last one.

A collective's kernel runs from the arrival of its own rank to the end of the slowest one's. A rank that begins a
round earlier, because its pause was shorter by a hundred microseconds, would measure that as kernel time.
"""

from __future__ import annotations

import mmap
import time
from pathlib import Path

_FILES = ("ranks-{}-rounds.barrier", "ranks-{}-cases.barrier")
PATIENCE_S = 120.0

# Each rank writes to a cache line of its own: how often it has come, and how often without success.
_SLOT_BYTES = 64
_WORD_BYTES = 8


def no_barrier() -> None:
    """What a worker waits for that is alone: nothing."""


def make_barriers(folder: Path, ranks: int) -> None:
    """Makes the files that the ranks of a team share."""
    for name in _FILES:
        (folder / name.format(ranks)).write_bytes(bytes(_SLOT_BYTES * ranks))


def open_barriers(folder: Path, rank: int, ranks: int) -> tuple[Barrier, Barrier]:
    """One rank's side of two barriers: at the beginning of each round, and at the end of each case."""
    rounds, cases = (Barrier(folder / name.format(ranks), rank, ranks) for name in _FILES)
    return rounds, cases


class Barrier:
    """One rank's side of a barrier over shared memory: a few microseconds, and no GPU work."""

    def __init__(self, path: Path, rank: int, ranks: int) -> None:
        """Opens the barrier.

        Args:
            path: a file that make_barriers made.
            rank: this process's.
            ranks: how many come.
        """
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SLOT_BYTES * ranks)
        words = memoryview(self._memory).cast("q")
        self._comings = words[:: _SLOT_BYTES // _WORD_BYTES]
        self._failures = words[1 :: _SLOT_BYTES // _WORD_BYTES]
        self._rank = rank
        self._count = 0

    def wait(self, patience_s: float = PATIENCE_S) -> None:
        """Returns when every rank has come as often as this one.

        Args:
            patience_s: how long that may take.

        Raises:
            RuntimeError: it takes longer.
        """
        self._count += 1
        self._comings[self._rank] = self._count
        deadline = time.monotonic() + patience_s
        while late := [rank for rank, count in enumerate(self._comings) if count < self._count]:
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"rank {late[0]} has not come to round {self._count} within {patience_s:.0f} s: every rank "
                    "must measure the same body with the same number of rounds"
                )
            # Gives the core away: ranks may outnumber the cores.
            time.sleep(0)

    def agree(self, *, has_failed: bool) -> bool:
        """Waits, for as long as it takes, and tells whether no rank has failed."""
        self._failures[self._rank] += has_failed
        self.wait(float("inf"))
        return not any(self._failures)
