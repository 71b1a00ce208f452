"""SIGTERM and SIGHUP while workers run: they end the session as Ctrl-C does, so that nothing of it stays behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NUMBERS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Turns signals that would kill this process and leave its workers' reports behind into KeyboardInterrupt.

    Only Python's main thread may do that; elsewhere nothing changes. What is ignored stays so, as SIGHUP is
    under nohup.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [number for number in _NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: somebody else's handler that was not installed from Python cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
