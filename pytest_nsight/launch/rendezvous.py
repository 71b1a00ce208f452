"""How the ranks of a parallel test find each other: the variables that torchrun sets, and no more."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

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
    """A world of one: without --nsight a parallel test runs on one rank, with the variables that it asks for."""
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
