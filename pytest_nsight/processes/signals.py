"""Signals: those that this process sends, and those that end it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


def send(pid: int, number: signal.Signals) -> None:
    """Signals a process, if it is there and ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill_group(pid: int) -> None:
    """Kills the process group of a process, if it is there and not that of this one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        group = os.getpgid(pid)
        if group != os.getpgrp():
            os.killpg(group, signal.SIGKILL)


class Interrupted(KeyboardInterrupt):
    """What a signal to end is, other than Ctrl-C.

    Attributes:
        signal: its number.
    """

    def __init__(self, number: int) -> None:
        """Takes the number of the signal."""
        super().__init__()
        self.signal = number


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Turns signals that would kill this process, and leave behind what it has made, into Interrupted.

    Only Python's main thread may do that; elsewhere nothing changes. What is ignored stays so, as SIGHUP is
    under nohup.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: somebody else's handler that was not installed from Python cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(number)
