"""What a worker does more when it is one rank of parallel tests, or cannot run some of its cases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_nsight.protocol.ranks import Barrier
from pytest_nsight.protocol.worker_plan import FAILED_FILE


class RankPlugin:
    """Hooks of the inner pytest of one rank."""

    def __init__(self, folder: Path, rank: int, barrier: Barrier) -> None:
        self._folder = folder
        self._rank = rank
        self._barrier = barrier
        self._has_failed = False

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Makes the rank's own GPU the current one, which torchrun leaves to the program."""
        self._session = session
        try:
            import torch  # noqa: PLC0415 - heavy, and only measuring processes need it
        except ImportError:
            return
        if torch.cuda.is_available():
            torch.cuda.set_device(self._rank)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tells the launcher of a failure at once: the rank's own clearing up may wait for its peers for ever."""
        if report.failed:
            self._has_failed = True
            (self._folder / FAILED_FILE).touch()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        """Ends every rank after a failure on any: they are out of step, and the next case could hang or fail."""
        if not self._barrier.agree(has_failed=self._has_failed):
            self._session.shouldfail = "the ranks are out of step after a failure; what is left is measured anew"


class UnablePlugin:
    """Skips the cases that this machine cannot run."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self._reasons = reasons

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skips before any fixture is made."""
        if item.nodeid in self._reasons:
            pytest.skip(self._reasons[item.nodeid])
