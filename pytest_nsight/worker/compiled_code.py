"""What torch.compile has compiled in this process: forgotten before each case, as it decides how it compiles next.

A function that has met another shape is compiled for any shape, and after a number of variants it runs uncompiled.
Both count for the function's code, so two tests that compile a model of one class affect one another.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_DYNAMO = "torch._dynamo"
_IMPORTS = 0
"""Stands among the owners for what is compiled while modules are imported."""


class CompiledCode:
    """Forgets it, but not what a wider fixture or an import has compiled: tests may rely on that.

    Such a test may ask that nothing is compiled again, or that the uncompiled function runs in that case.
    """

    def __init__(self) -> None:
        # Fixtures, by their ids, that have compiled and are not torn down.
        self._owners: set[int] = set()
        self._is_first = True

    def forget(self) -> None:
        """Lets torch.compile begin as in a new process, before a case."""
        if self._is_first and _count_compilations():
            self._owners.add(_IMPORTS)
        self._is_first = False
        if not self._owners and _count_compilations():
            # A test may have put anything in its place, and a device that a case has left unusable refuses.
            with suppress(Exception):
                _reset()

    @contextmanager
    def taken_over(self, fixture: int) -> Iterator[None]:
        """Keeps what the setup of a wider fixture compiles until `release`."""
        before = _count_compilations()
        yield
        if _count_compilations() > before:
            self._owners.add(fixture)

    def release(self, fixture: int) -> None:
        """Keeps nothing for this fixture any more; called more than once."""
        self._owners.discard(fixture)


def _count_compilations() -> int:
    """Functions that were compiled since the last reset."""
    count = getattr(sys.modules.get(f"{_DYNAMO}.convert_frame"), "FRAME_COUNTER", 0)
    return count if isinstance(count, int) else 0


def _reset() -> None:
    # A thread that a test has left may compile for minutes, and a reset would wait for it.
    lock = sys.modules[f"{_DYNAMO}.convert_frame"].compile_lock
    if lock.acquire(blocking=False):
        try:
            sys.modules[_DYNAMO].reset()
        finally:
            lock.release()
