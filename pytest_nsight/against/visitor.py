"""What is particular to a pytest that measures another tree.

Tests may be missing there, and others be new; and nothing may be imported from the user's tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_nsight.against.mirror import Mirror, find_leaks
from pytest_nsight.manifest import Journal
from pytest_nsight.mark import is_marked


class Visitor:
    """Hooks of the inner pytest, beside the worker's own."""

    __name__ = "nsight-visitor"  # pytest registers a plugin object under this name

    def __init__(self, journal: Journal, mirror: Mirror) -> None:
        self._journal = journal
        self._mirror = mirror
        self._selects_by_name = False
        self._has_leaked = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Takes whole files that exist: a test or a file that this tree lacks is no wrong argument here."""
        config.option.continue_on_collection_errors = True
        if config.option.pyargs:
            return
        self._selects_by_name = any("::" in argument for argument in config.args)
        files = dict.fromkeys(argument.partition("::")[0] for argument in config.args)
        config.args[:] = [file for file in files if Path(config.invocation_params.dir, file).exists()]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Measures nothing if the modules of the tests are the wrong ones already."""
        if self._tell_leaks():
            pytest.exit("the wrong tree was imported")

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Tells of what was imported since."""
        if not self._has_leaked:
            self._tell_leaks()

    def _tell_leaks(self) -> bool:
        for module, file in find_leaks(self._mirror):
            self._journal.write("leak", module=module, file=file)
            self._has_leaked = True
        return self._has_leaked

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Tells of marked tests that the session's own tree may lack; it knows those that it has."""
        if not self._selects_by_name:
            cases = [item.nodeid for item in items if is_marked(item)]
            self._journal.write("surplus", cases=cases)
