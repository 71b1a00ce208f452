"""Ends a worker that got ready for an assignment that will not come; the session waits for its end.

It may be importing torch or Dynamo then, which takes seconds.
"""

from __future__ import annotations

import importlib.abc
import os
import sys
import threading
from collections.abc import Sequence
from types import FrameType, ModuleType

from pytest_nsight.protocol.parent_pipe import PipeFromParent

_IMPORTING = ("importlib", "_pytest", "pluggy", "pytest", "pytest_nsight")
"""Packages whose functions lie between the bodies of modules, and hold no lock that outlives the process."""


class EndAtImports(importlib.abc.MetaPathFinder):
    """Ends the process where it looks for a module, once its controller has given it up; others find the module.

    Only bodies of modules may be under way, in one thread: a function, such as one that compiles an extension, may
    hold a lock file that would outlive the process. What the body of a module itself has locked so stays.
    """

    def __init__(self, parent_pipe: PipeFromParent) -> None:
        self._parent_pipe = parent_pipe

    def watch(self) -> None:
        """Begins; what comes after the assignment ends nothing."""
        sys.meta_path.insert(0, self)

    def find_spec(
        self,
        fullname: str,  # noqa: ARG002 - the protocol's
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        """Finds nothing."""
        if self._parent_pipe.is_given_up and threading.active_count() == 1 and _runs_only_modules(sys._getframe(1)):  # noqa: SLF001
            os._exit(0)


def _runs_only_modules(frame: FrameType | None) -> bool:
    """Whether this frame and those that called it run bodies of modules, and what imports them."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if frame.f_code.co_name != "<module>" and package not in _IMPORTING:
            return False
        frame = frame.f_back
    return True
