"""What the controller has to know of a test's report, and pytest's own report does not say."""

from __future__ import annotations

import traceback
from collections.abc import Generator, Iterator

import pytest
from _pytest.skipping import xfailed_key  # pytest has no public name for it

from pytest_nsight.protocol.phase_reports import EXPECTS_EXCEPTION, FAILED_FIXTURE


class ReportMarksPlugin:
    """Adds it to the report as an attribute, which pytest serialises."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Marks a test that is expected to fail with certain exceptions, and a shared fixture whose end failed."""
        report = yield
        # The mark whose condition holds.
        expected = item.stash.get(xfailed_key, None)
        if expected is not None and expected.raises is not None:
            vars(report)[EXPECTS_EXCEPTION] = True
        if report.when != "call" and call.excinfo is not None:
            fixtures = list(find_shared_fixtures(call.excinfo.value))
            if fixtures:
                vars(report)[FAILED_FIXTURE] = fixtures[0]
        return report


def find_shared_fixtures(error: BaseException) -> Iterator[str]:
    """The names of fixtures of more than one test whose own teardown raised this.

    Args:
        error: of a teardown, or of a setup, in which a fixture with parameters ends for the one before; a group of
            them where several fixtures failed.
    """
    # The last one: a fixture that ends has those end first that depend on it.
    ended = [
        frame.f_locals["self"]
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if frame.f_code is pytest.FixtureDef.finish.__code__
    ]
    parts = getattr(error, "exceptions", None)
    if isinstance(parts, tuple):
        for part in parts:
            yield from find_shared_fixtures(part)
    elif ended and ended[-1].scope != "function":
        yield str(ended[-1].argname)
