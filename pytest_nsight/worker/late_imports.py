"""Modules that torch imports only when a test needs them, and that take seconds.

An identity pass records which of them its cases imported. Processes that wait for their assignment beside it import
the same ones meanwhile: the first timed case that needs one would import it while no other process may measure.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from contextlib import suppress

from pytest_nsight.protocol.manifest_events import Journal

SLOW_IMPORTS = ("torch._dynamo",)
"""Dynamo is imported at the first step of an optimizer and by torch.compile: 2 s, and 5 to 7 s on a slow CPU."""


class LateImports:
    """Records what cases import of these modules, once for each."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: set[str] = set()

    def begin(self) -> None:
        """Leaves out what the collection has imported: the other processes import that, too."""
        self._known = set(SLOW_IMPORTS) & sys.modules.keys()

    def record(self) -> None:
        """Records what has been imported since."""
        for name in SLOW_IMPORTS:
            if name in sys.modules and name not in self._known:
                self._known.add(name)
                self._journal.write("late_import", module=name)


def import_early(name: str) -> None:
    """Imports one of these modules, and nothing else; a test that needs it reports what goes wrong.

    Args:
        name: as a process of the identity pass recorded it.
    """
    if name in SLOW_IMPORTS:
        with warnings.catch_warnings(), suppress(Exception):
            warnings.simplefilter("ignore")
            importlib.import_module(name)
