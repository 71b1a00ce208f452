"""SIGTERM while workers run: it ends the session as Ctrl-C does, so that nothing of it stays behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Turns SIGTERM, which would kill this process and leave its workers running, into KeyboardInterrupt.

    Only Python's main thread may do that; elsewhere nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        # None: somebody else's handler that was not installed from Python cannot be put back.
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
