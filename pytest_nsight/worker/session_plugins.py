"""Plugins that fit the user's pytest session to a worker: its options, its one process, ranks, cases to skip."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Mapping

# By name: a test may replace what the module holds, and would then pass for a forked child.
from os import getpid
from pathlib import Path

import psutil
import pytest

from pytest_nsight.protocol.ranks import Barrier
from pytest_nsight.protocol.worker_plan import FAILED_FILE
from pytest_nsight.worker.process_end import end_copy

# Options that select by what an earlier session saw: the assignment has selected already.
_SELECTIONS = ("lf", "failedfirst", "newfirst", "stepwise", "stepwise_skip", "stepwise_reset")

# Options of report writers whose files belong to the user's pytest: the worker must not write them too.
_REPORT_FILES = ("xmlpath", "htmlpath", "report_log", "json_report_file", "allure_report_dir", "csv_path")

_OWN_FOLDER = "nsight-"
"""How names of temporary folders begin; the number of the process follows."""

_FORKING = ("pytest_forked", "forked")
"""Names under which plugins that fork for each test are registered."""


class OptionsPlugin:
    """Clears the options that only the user's own pytest may act on."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Clears report files, selections and the debugger; gives temporary files a folder of their own."""
        for name in _REPORT_FILES:
            if getattr(config.option, name, None):
                setattr(config.option, name, None)
        for name in _SELECTIONS:
            if getattr(config.option, name, None):
                setattr(config.option, name, False)
        config.option.usepdb = config.option.trace = False
        if config.option.basetemp:
            config.option.basetemp = _find_own_folder(Path(config.option.basetemp).absolute())
        # Not None: that would leave the ini setting in force, which names the user's file.
        config.option.log_file = os.devnull


def _find_own_folder(shared: Path) -> Path:
    """A folder for temporary files of this process alone, in the one that the user names.

    pytest empties the folder that it is given, where other workers may have files at the same time. This one only
    removes what ended workers have left there.
    """
    shared.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in shared.glob(f"{_OWN_FOLDER}*"):
        pid = folder.name.removeprefix(_OWN_FOLDER)
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)
    return shared / f"{_OWN_FOLDER}{getpid()}"


class RankPlugin:
    """Hooks of the pytest of one rank."""

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
        """Reports a failure to the supervisor at once: the rank's own teardown may wait for its peers for ever."""
        if report.failed:
            self._has_failed = True
            (self._folder / FAILED_FILE).touch()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        """Ends every rank after a failure on any: they are out of step, and the next case may hang or fail."""
        if not self._barrier.agree(has_failed=self._has_failed):
            self._session.shouldfail = (
                "the ranks are out of step after a failure; the remaining cases are measured again"
            )


class SkipPlugin:
    """Skips the cases that this machine cannot run."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self._reasons = reasons

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skips before any fixture is made."""
        if item.nodeid in self._reasons:
            pytest.skip(self._reasons[item.nodeid])


class OneProcessPlugin:
    """A worker stays one process that runs each test once, whatever a test or another plugin does.

    A test that forks leaves a second pytest with the same journal. A test that is interrupted would end the session
    as if the user had. A plugin that runs each test in a process of its own takes the measurement away from the
    worker, which is a process of its own already.

    Attributes:
        is_interrupted: whether KeyboardInterrupt ended the tests before the last one.
    """

    def __init__(self) -> None:
        self._pid = getpid()
        self.is_interrupted = False

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Unregisters plugins that fork."""
        manager = session.config.pluginmanager
        for name in _FORKING:
            if manager.hasplugin(name):
                manager.unregister(name=name)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Ends a forked child that returns from the test."""
        try:
            result = yield
        except BaseException as error:
            if getpid() != self._pid:
                end_copy(error)
            raise
        if getpid() != self._pid:
            end_copy(None)
        return result

    pytest_runtest_setup = pytest_runtest_teardown = pytest_runtest_call

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_pyfunc_call(self) -> Generator[None, object, object]:
        """Ends a forked child before the whole test is measured, which calls it again and again."""
        result = yield
        if getpid() != self._pid:
            end_copy(None)
        return result

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Notes that a test was interrupted. pytest.exit raises a subclass, which does not count."""
        self.is_interrupted = self.is_interrupted or excinfo.type is KeyboardInterrupt
