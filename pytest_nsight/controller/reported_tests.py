"""The measured tests, reported through pytest's hooks as its own runner reports the tests that it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from pytest_nsight.controller.outcomes import CaseOutcome, restore_warning
from pytest_nsight.protocol.mark import is_marked


class ReportedTests:
    """Reports tests, and notes which ones it has reported."""

    def __init__(self, find_outcome: Callable[[str], CaseOutcome], *, strict: bool) -> None:
        """Reports nothing yet.

        Args:
            find_outcome: from a node id to the outcome of its case.
            strict: whether verdicts that settle nothing fail.
        """
        self._find_outcome = find_outcome
        self._strict = strict
        self._reported: set[str] = set()

    def report(self, item: pytest.Item) -> None:
        """Passes the reports and warnings of a test to pytest's hooks."""
        self._reported.add(item.nodeid)
        outcome = self._find_outcome(item.nodeid)
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in outcome.reports(item, strict=self._strict):
            item.ihook.pytest_runtest_logreport(report=report)
        for warning in outcome.warnings:
            item.ihook.pytest_warning_recorded.call_historic(
                kwargs={
                    "warning_message": restore_warning(warning),
                    "when": "runtest",
                    "nodeid": item.nodeid,
                    "location": None,
                }
            )
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def list_unreported(self, items: Iterable[pytest.Item]) -> list[str]:
        """Marked tests that fail, or that no worker reached, and that pytest has not reported."""
        return [
            item.nodeid
            for item in items
            if is_marked(item) and item.nodeid not in self._reported
            if any(report.failed for report in self._find_outcome(item.nodeid).reports(item, strict=self._strict))
        ]


def tear_down_before(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Ends the fixtures that the next test does not share, as if this one had run here.

    An unmarked test before it has kept the fixtures that it needs. An error in a teardown is reported as its own.
    """
    teardown_exact = item.session._setupstate.teardown_exact  # noqa: SLF001 - its only name
    call = pytest.CallInfo.from_call(
        lambda: teardown_exact(nextitem), when="teardown", reraise=(pytest.exit.Exception, KeyboardInterrupt)
    )
    if call.excinfo is not None:
        # Not through the hook, whose plugins have not seen this test begin.
        item.ihook.pytest_runtest_logreport(report=pytest.TestReport.from_item_and_call(item, call))
