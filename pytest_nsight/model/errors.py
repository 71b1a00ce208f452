r"""Errors that a user can correct, and the user's wish to end. Every message says what happened, where, what to do.

NsightError
├── UsageError            options, ini settings or mark arguments that make no sense
├── CollectorError        a collector cannot work here
│   ├── NsysError         Nsight Systems is missing, too old, incomplete, or failed
│   └── TraceError        an export or recording that cannot be read
├── BaselineError         a baseline file that cannot be read or written
└── RecordingError        a session folder that cannot be replayed
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


class NsightError(Exception):
    """Base of all errors whose message is meant for the user, without a traceback.

    The message is one sentence or two: what happened, with the value; why; what to type.
    """


class UsageError(NsightError):
    """Options, ini settings or mark arguments that make no sense."""


class CollectorError(NsightError):
    """A collector cannot work on this machine, or failed while it worked."""


class NsysError(CollectorError):
    """Nsight Systems is missing, too old, incomplete, or failed."""


class TraceError(CollectorError):
    """An export or a recording that cannot be read: damaged, of another kind, or larger than memory allows."""


class BaselineError(NsightError):
    """A baseline file that cannot be read or written; no other file is affected."""


class RecordingError(NsightError):
    """A session folder that cannot be replayed.

    It was recorded without --nsight-keep, is damaged, or was written by a newer version.
    """


def unwritable(folder: Path, error: OSError) -> CollectorError:
    """The error for a folder of the session that cannot be written.

    Args:
        folder: a folder below .nsight/.
        error: what the operating system reports.
    """
    return CollectorError(
        f"{folder} cannot be written ({error.strerror}): the session's files go below pytest's root folder, "
        "so make that writable, or choose another with --rootdir"
    )


class Interrupted(KeyboardInterrupt):
    """What a signal to end is, other than Ctrl-C.

    Attributes:
        signal: its number.
    """

    def __init__(self, number: int) -> None:
        """Takes the number of the signal."""
        super().__init__()
        self.signal = number


_NUMBERS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Turns signals that would kill this process, and leave behind what it has made, into Interrupted.

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


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(number)
