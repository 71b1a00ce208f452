"""Finds all that a test has started, by a value in the environment; what a failed test leaves is ended."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

VARIABLE = "PYTEST_NSIGHT_TEST_VALUE"
"""A name that is not taken for a secret's: those are hidden from nsys, and so from what it starts."""


@contextmanager
def unique_token() -> Iterator[str]:
    """A value that the environment of everything started by a test holds."""
    value = secrets.token_hex(8)
    try:
        yield value
    finally:
        for process in carriers(value):
            process.kill()


def carriers(token: str) -> list[psutil.Process]:
    """All running processes that have the token in their environment."""
    return [process for process in psutil.process_iter() if _carries(process, token)]


def _carries(process: psutil.Process, token: str) -> bool:
    try:
        text = Path(f"/proc/{process.pid}/environ").read_bytes()
        return token.encode() in text and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.Error):
        return False


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline_s, "did not come true"
        time.sleep(0.02)
