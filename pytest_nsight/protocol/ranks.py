"""How the ranks of a parallel test find each other, and how they begin each round together.

They find each other by the variables that torchrun sets. They begin together because a collective's kernel runs
from the arrival of its own rank to the end of the slowest one's: a rank that begins a round a hundred microseconds
earlier measures them as kernel time.
"""

from __future__ import annotations

import mmap
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_HERE = "127.0.0.1"


def rank_environs(ranks: int) -> tuple[dict[str, str], ...]:
    """Environment variables of rank 0, 1, and so on, all on this machine."""
    common = {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "GROUP_RANK": "0",
        "MASTER_ADDR": _HERE,
        "MASTER_PORT": str(free_port()),
    }
    return tuple({"RANK": str(rank), "LOCAL_RANK": str(rank), **common} for rank in range(ranks))


def is_one_of_many(environ: Mapping[str, str]) -> bool:
    """Whether torchrun, or something like it, has started this process several times."""
    size = environ.get("WORLD_SIZE", "")
    return "RANK" in environ and "MASTER_ADDR" in environ and size.isdigit() and int(size) > 1


@contextmanager
def as_only_rank() -> Iterator[None]:
    """The variables of a group of one rank: without --nsight a parallel test runs on a single rank."""
    if "WORLD_SIZE" in os.environ:
        yield
        return
    (alone,) = rank_environs(1)
    added = {name: value for name, value in alone.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((_HERE, 0))
        port: int = probe.getsockname()[1]
    return port


_FILES = ("ranks-{}-rounds.barrier", "ranks-{}-cases.barrier")
PATIENCE_S = 120.0

# Each rank writes to a cache line of its own: how often it has arrived, and how often it had failed.
_SLOT_BYTES = 64
_WORD_BYTES = 8


def no_barrier() -> None:
    """The barrier of a worker that has no peers: it does not wait."""


def make_barriers(folder: Path, ranks: int) -> None:
    """Makes the files that the ranks of a group share."""
    for name in _FILES:
        (folder / name.format(ranks)).write_bytes(bytes(_SLOT_BYTES * ranks))


def open_barriers(folder: Path, rank: int, ranks: int) -> tuple[Barrier, Barrier]:
    """Two barriers of one rank: at the beginning of each round, and at the end of each case."""
    rounds, cases = (Barrier(folder / name.format(ranks), rank, ranks) for name in _FILES)
    return rounds, cases


class Barrier:
    """One rank's end of a barrier over shared memory: it costs a few microseconds, and no GPU work."""

    def __init__(self, path: Path, rank: int, ranks: int) -> None:
        """Opens the barrier.

        Args:
            path: a file that make_barriers made.
            rank: this process's.
            ranks: how many take part.
        """
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SLOT_BYTES * ranks)
        words = memoryview(self._memory).cast("q")
        self._arrivals = words[:: _SLOT_BYTES // _WORD_BYTES]
        self._failures = words[1 :: _SLOT_BYTES // _WORD_BYTES]
        self._rank = rank
        self._count = 0

    def wait(self, patience_s: float = PATIENCE_S) -> None:
        """Returns when every rank has arrived as often as this one.

        Args:
            patience_s: the longest wait.

        Raises:
            RuntimeError: the wait is longer.
        """
        self._count += 1
        self._arrivals[self._rank] = self._count
        deadline = time.monotonic() + patience_s
        while late := [rank for rank, count in enumerate(self._arrivals) if count < self._count]:
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"rank {late[0]} did not arrive at round {self._count} within {patience_s:.0f} s: every rank "
                    "must measure the same body with the same number of rounds"
                )
            # Other ranks need the core: there may be more ranks than cores.
            time.sleep(0)

    def agree(self, *, has_failed: bool) -> bool:
        """Whether no rank has failed; waits for all of them, without a limit."""
        self._failures[self._rank] += has_failed
        self.wait(float("inf"))
        return not any(self._failures)
