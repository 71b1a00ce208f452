"""A lock on a folder: one process changes it at a time, and a process that waits says for whom."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from pytest_nsight.baselines.atomic_files import explaining
from pytest_nsight.model.errors import BaselineError
from pytest_nsight.processes.regular_files import is_open_at

FILE_NAME = ".lock"

LONGEST_WAIT_S = 300.0
"""Seconds to wait for the lock: saving a suite of 100 cases with 20 runs each holds it for about 5."""

_PAUSE_S = 0.05
_MOST_BYTES = 4096


@contextlib.contextmanager
def locked(folder: Path, longest_wait_s: float = LONGEST_WAIT_S) -> Iterator[None]:
    """Holds the folder's lock, and leaves no lock file behind.

    Args:
        folder: the folder, which exists.
        longest_wait_s: how long to wait for another process that holds the lock.

    Raises:
        BaselineError: another process holds the lock all this time, the folder cannot be written, or its file
            system has no locks.
    """
    path = folder / FILE_NAME
    deadline = time.monotonic() + longest_wait_s
    while True:
        with explaining("write", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            _wait(descriptor, path, deadline)
            # The holder before us removed the file while we waited: then we hold a lock on nothing.
            if not is_open_at(descriptor, path):
                continue
            try:
                with explaining("write", path):
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, _describe_this_process().encode())
                yield
            finally:
                path.unlink(missing_ok=True)
            return
        finally:
            os.close(descriptor)


def _wait(descriptor: int, path: Path, deadline: float) -> None:
    while True:
        with explaining("lock", path):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                return
        if time.monotonic() >= deadline:
            raise BaselineError(
                f"{path} is locked by {_read_holder(descriptor)}; wait until that process ends, or end it, "
                "then save again"
            )
        time.sleep(_PAUSE_S)


def _describe_this_process() -> str:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": now})


def _read_holder(descriptor: int) -> str:
    try:
        holder = json.loads(os.pread(descriptor, _MOST_BYTES, 0))
        return f"process {int(holder['process'])} on {str(holder['host'])!a} since {str(holder['since'])!a}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
