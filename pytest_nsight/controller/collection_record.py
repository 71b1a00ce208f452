"""Follows pytest through a collection: what it found, what was deselected, and what it could not collect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from pytest_nsight.controller.completeness import Collected
from pytest_nsight.controller.raised_calls import RaisedCalls
from pytest_nsight.controller.settings import Settings
from pytest_nsight.controller.untested_files import CollectedFiles


class CollectionRecord:
    """What the hooks of a collection have said so far.

    Attributes:
        deselected: tests that the user did not select.
        raised: name of a script's call that raised in the first pass -> its error.
        unmeasured: sentences on calls of a script that nothing measures.
    """

    def __init__(self) -> None:
        self.deselected: list[pytest.Item] = []
        self.raised: Mapping[str, str] = {}
        self.unmeasured: tuple[str, ...] = ()
        self._found: dict[str, None] = {}
        self._without_tests: list[pytest.CollectReport] = []

    def add_found(self, items: Sequence[pytest.Item]) -> None:
        """Remembers the tests that were there before a conftest left some out."""
        self._found |= dict.fromkeys(item.nodeid for item in items)

    def add_deselected(self, items: Sequence[object]) -> None:
        """Remembers tests that were not selected; plugins also pass objects that pytest only counts."""
        self.deselected += [item for item in items if isinstance(item, pytest.Item)]

    def add_report(self, report: pytest.CollectReport) -> None:
        """Remembers a file or folder that was skipped as a whole, or that could not be collected."""
        if not report.passed:
            self._without_tests.append(report)

    def summarise(self, session: pytest.Session, settings: Settings) -> Collected:
        """The collection as a value, once it has ended."""
        # A hook that leaves tests out does so on purpose, whether it calls them deselected or not.
        others = (*self._found, *(item.nodeid for item in self.deselected))
        known = (*others, *(item.nodeid for item in session.items))
        files = CollectedFiles.of(session.config, (case.partition("::")[0] for case in known), self._without_tests)
        if settings.script is None:
            return Collected.of(session.items, others, session.config, files)
        # What it is asked to collect is the script alone, whose calls depend on its arguments.
        collected = Collected.of(session.items, others, session.config, replace(files, asked=()))
        scope = settings.script.scope
        return replace(collected, scope=scope, raised=RaisedCalls(scope, self.raised), unmeasured=self.unmeasured)
