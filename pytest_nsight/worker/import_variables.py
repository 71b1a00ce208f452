"""Environment variables that modules set while they are imported.

A module is imported once in a process, and it may need its variables ever after. So these are no state that a test
leaves behind, even where the test is the first to import the module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"
_VARIABLES: Any = type(os.environ)
"""Whatever sets an environment variable in Python sets an item of its only instance."""


class ImportVariables:
    """Notes which variables are set by code that runs because of an import, on any thread.

    Attributes:
        names: of the variables that were set so since `watch`.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._write: Callable[[Any, str, str], None] = _VARIABLES.__setitem__

    def watch(self) -> None:
        """Begins."""
        write = self._write = _VARIABLES.__setitem__

        def write_and_note(variables: Any, name: str, value: str) -> None:
            write(variables, name, value)
            if _is_importing(sys._getframe()):  # noqa: SLF001
                self.names.add(name)

        _VARIABLES.__setitem__ = write_and_note

    def stop(self) -> None:
        """Ends."""
        _VARIABLES.__setitem__ = self._write


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT_SYSTEM:
            return True
        frame = frame.f_back
    return False
