"""The threads of Python and the processes of multiprocessing that a case leaves running, by their names.

Nothing can end a thread, and what it runs counts in the rounds of later cases. No rule could leave it out: a thread
that one case has started may be the worker that later cases give their work to. Likewise a process, which runs to
the end of this one.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PATIENCE_S = 0.2
"""Time for threads that are about to end, of all threads together."""

# Their threads wait for work, or belong to what runs around a case.
_LIBRARIES = frozenset(
    ("_pytest", "execnet", "multiprocessing", "pytest_nsight", "pytest_timeout", "torch", "tqdm", "triton", "xdist")
)
_POOL = "concurrent.futures.thread"


class LeftThreads:
    """Knows the threads and processes that were there before a case, and finds those that it leaves."""

    def __init__(self) -> None:
        self._known = _list_running()

    def begin(self) -> None:
        """Takes what runs now for nobody's."""
        self._known = _list_running()

    @contextmanager
    def taken_over(self) -> Iterator[None]:
        """Takes what begins within for a wider fixture's, which ends it at its own time."""
        before = _list_running()
        try:
            yield
        finally:
            self._known |= _list_running() - before

    def find(self) -> tuple[str, ...]:
        """What began since and still runs, such as "running thread Thread-1 (f)", sorted, each once."""
        until = time.monotonic() + _PATIENCE_S
        found = set()
        for one in _list_running() - self._known:
            if isinstance(one, threading.Thread) and _is_helper(one):
                continue
            one.join(max(0.0, until - time.monotonic()))
            if one.is_alive() and not (isinstance(one, threading.Thread) and _waits_in_pool(one)):
                kind = "thread" if isinstance(one, threading.Thread) else "process"
                found.add(f"running {kind} {one.name}")
        return tuple(sorted(found))


def _list_running() -> set[Any]:
    """Threads, and those processes that are no daemons: the interpreter ends these, as those of data loaders."""
    multiprocessing: Any = sys.modules.get("multiprocessing")
    children = multiprocessing.active_children() if multiprocessing is not None else ()
    return {*threading.enumerate(), *(child for child in children if not child.daemon)}


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
