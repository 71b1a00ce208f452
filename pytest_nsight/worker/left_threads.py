"""The threads of Python that a case leaves running: nothing can end them, so they are named.

What they run counts in the rounds of later cases. No rule could leave it out: a thread that one case has started
may be the worker that later cases give their work to.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_PATIENCE_S = 0.2
"""Time for threads that are about to end, of all threads together."""

# Their threads wait for work, or belong to what runs around a case.
_LIBRARIES = frozenset(
    ("_pytest", "execnet", "multiprocessing", "pytest_nsight", "pytest_timeout", "torch", "tqdm", "triton", "xdist")
)
_POOL = "concurrent.futures.thread"


class LeftThreads:
    """Knows the threads that were there before a case, and finds those that it leaves."""

    def __init__(self) -> None:
        self._known = set(threading.enumerate())

    def begin(self) -> None:
        """Takes the threads that run now for nobody's."""
        self._known = set(threading.enumerate())

    @contextmanager
    def taken_over(self) -> Iterator[None]:
        """Takes what begins within for a wider fixture's, which ends it at its own time."""
        before = set(threading.enumerate())
        try:
            yield
        finally:
            self._known |= set(threading.enumerate()) - before

    def find(self) -> tuple[str, ...]:
        """Names of the threads that began since and still run, sorted, each once."""
        until = time.monotonic() + _PATIENCE_S
        fresh = [thread for thread in set(threading.enumerate()) - self._known if not _is_helper(thread)]
        for thread in fresh:
            thread.join(max(0.0, until - time.monotonic()))
        return tuple(sorted({thread.name for thread in fresh if thread.is_alive() and not _waits_in_pool(thread)}))


def _is_helper(thread: threading.Thread) -> bool:
    """Whether a library runs the thread, or a program in C, as torch's autograd does."""
    is_of_c = isinstance(thread, threading._DummyThread)  # noqa: SLF001 - its only name
    return is_of_c or not _LIBRARIES.isdisjoint(
        (_owner(thread).partition(".")[0], thread.__module__.partition(".")[0])
    )


def _owner(thread: threading.Thread) -> str:
    """The module of what the thread runs."""
    target = getattr(thread, "_target", None)
    return str(getattr(target, "__module__", None) or "")


def _waits_in_pool(thread: threading.Thread) -> bool:
    """Whether it is of a ThreadPoolExecutor and has nothing to do: a wider fixture's begins its threads late."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - its only name
    return _owner(thread) == _POOL and (frame is None or frame.f_globals.get("__name__") == _POOL)
