"""Modules that torch imports only when a test needs them, and that take seconds.

An identity pass records which of them its cases imported. Processes that wait for their assignment, beside it or
later, import the same ones meanwhile: the first timed case that needs one would import it while no other process
may measure.
"""

from __future__ import annotations

import importlib
import importlib.abc
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType

from pytest_nsight.protocol.journal import Journal

SLOW_IMPORTS = ("torch._dynamo",)
"""Dynamo is imported at the first step of an optimizer and by torch.compile: 2 s, and 5 to 7 s on a slow CPU."""

_CONFIGURATION = ("TORCH", "PYTORCH", "TRITON")
"""How the environment variables begin that these modules read while they are imported."""


class LateImports(importlib.abc.MetaPathFinder):
    """Sees the import of each of these modules begin, and records it once; others find the module.

    It is not recorded where a test or a fixture has set a variable that the module reads once and for all.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: set[str] = set()
        self._variables: dict[str, str] = {}

    def watch(self) -> None:
        """Begins, after the collection: what that has imported, the other processes have, too."""
        self._variables = _read_variables()
        sys.meta_path.insert(0, self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        """Finds nothing."""
        if fullname in SLOW_IMPORTS and fullname not in self._known:
            self._known.add(fullname)
            if _read_variables() == self._variables:
                self._journal.write("late_import", module=fullname)


def _read_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_CONFIGURATION)}


def import_early(name: str) -> None:
    """Imports one of these modules, and nothing else; a test that needs it reports what goes wrong.

    Without its package nothing happens: a test may want to be the first to import that.

    Args:
        name: as a process of the identity pass recorded it.
    """
    if name in SLOW_IMPORTS and name.partition(".")[0] in sys.modules:
        with warnings.catch_warnings(), suppress(Exception):
            warnings.simplefilter("ignore")
            importlib.import_module(name)
