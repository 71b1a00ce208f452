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
"""Whatever changes an environment variable in Python does so through an instance: os.environ or os.environb."""


class ImportVariables:
    """Notes what code that runs because of an import makes of variables, on any thread.

    Attributes:
        values: name -> last value that such code has set since `forget`, without those that it has deleted again.
    """

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._set: Callable[[Any, Any, Any], None] = _VARIABLES.__setitem__
        self._delete: Callable[[Any, Any], None] = _VARIABLES.__delitem__

    def watch(self) -> None:
        """Begins."""
        set_item = self._set = _VARIABLES.__setitem__
        delete_item = self._delete = _VARIABLES.__delitem__

        def set_and_note(variables: Any, name: str | bytes, value: str | bytes) -> None:
            set_item(variables, name, value)
            if _is_importing(sys._getframe()):  # noqa: SLF001
                self.values[os.fsdecode(name)] = os.fsdecode(value)

        def delete_and_note(variables: Any, name: str | bytes) -> None:
            delete_item(variables, name)
            if _is_importing(sys._getframe()):  # noqa: SLF001
                self.values.pop(os.fsdecode(name), None)

        _VARIABLES.__setitem__ = set_and_note
        _VARIABLES.__delitem__ = delete_and_note

    def forget(self) -> None:
        """Begins anew, as for the next test."""
        self.values.clear()

    def stop(self) -> None:
        """Ends."""
        _VARIABLES.__setitem__ = self._set
        _VARIABLES.__delitem__ = self._delete


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT_SYSTEM:
            return True
        frame = frame.f_back
    return False
