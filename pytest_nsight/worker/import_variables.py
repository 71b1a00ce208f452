"""Environment variables that modules set while they are imported.

A module is imported once in a process, and it may need its variables ever after. So these are no state that a test
leaves behind, even where the test is the first to import the module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"


class ImportVariables:
    """Notes which variables are set by code that runs because of an import, on any thread.

    Attributes:
        names: of the variables that were set so since `watch`.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._original: Callable[[Any, str, str], None] | None = None

    def watch(self) -> None:
        """Begins; whatever sets an item of `os.environ` passes here."""
        kind, write = _mapping_of_variables(), _mapping_of_variables().__setitem__

        def write_and_note(environ: Any, name: str, value: str) -> None:
            write(environ, name, value)
            if _is_importing():
                self.names.add(name)

        self._original = write
        kind.__setitem__ = write_and_note

    def stop(self) -> None:
        """Ends."""
        if self._original is not None:
            _mapping_of_variables().__setitem__ = self._original
            self._original = None


def _mapping_of_variables() -> Any:
    return type(os.environ)


def _is_importing() -> bool:
    frame = sys._getframe(2)  # noqa: SLF001
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT_SYSTEM:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
