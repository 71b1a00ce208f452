"""The pytest of a bisection: it collects the case and searches the commits, and runs no test."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_nsight.controller.bisection.commit_list import CommitLine, describe_search, list_commits
from pytest_nsight.controller.bisection.first_bad_commit import FirstBadCommit, SearchLimits
from pytest_nsight.controller.bisection.revision_measurement import Invocation, RevisionMeasurement
from pytest_nsight.controller.options import given_options
from pytest_nsight.controller.pytest_input import ask_environment, check_text, worker_arguments
from pytest_nsight.controller.settings import Settings, read_settings
from pytest_nsight.controller.workers.progress_line import ProgressLine
from pytest_nsight.model.bisection import Bisection
from pytest_nsight.model.errors import NsightError, UsageError
from pytest_nsight.model.units import name_some
from pytest_nsight.model.values import Case, Policy
from pytest_nsight.processes.signals import interrupted_by_signals
from pytest_nsight.protocol.mark import is_marked, read_mark
from pytest_nsight.report.bisection_report import render_text

_OPTIONS = frozenset(
    f"--nsight-{name}"
    for name in (
        *("against-build", "band", "collector", "cpu-threads", "no-canaries", "no-identity", "rounds", "strict"),
        *("timeout", "user-ranges", "visible-variables"),
    )
)
"""Options of the gate that a bisection takes."""

_MOST_SHOWN = 5
_LOG_WIDTH = 100


@dataclass(frozen=True, slots=True)
class BisectRequest:
    """What the user typed.

    Attributes:
        good: a commit in which the case is as it should be.
        bad: a later one in which it is not.
        case: node id or name of the case, or an expression of pytest's -k; "" where other arguments select it.
        wants_improvement: whether BAD may be faster than GOOD.
        minutes: begin no further commit after so many; None for no limit.
        json: file for the answer as JSON, None for none.
    """

    good: str
    bad: str
    case: str = ""
    wants_improvement: bool = False
    minutes: float | None = None
    json: Path | None = None


class BisectPlugin:
    """The hooks of `pytest-nsight bisect`, in place of the controller's.

    Attributes:
        found: the answer.
        error: why there is none.
        interrupt: the user's.
    """

    __name__ = "nsight-bisect"  # pytest registers a plugin object under this name

    def __init__(self, request: BisectRequest) -> None:
        self._request = request
        self._settings: Settings | None = None
        self._line: CommitLine | None = None
        self.found: Bisection | None = None
        self.error: NsightError | None = None
        self.interrupt: KeyboardInterrupt | None = None

    def pytest_configure(self, config: pytest.Config) -> None:
        """Reads the settings.

        Raises:
            pytest.UsageError: one makes no sense, or none for a bisection.
        """
        for option in given_options(config):
            if option not in _OPTIONS:
                raise pytest.UsageError(f"bisect compares commits and writes no report; run it without {option}")
        try:
            self._settings = read_settings(config)
        except NsightError as error:
            raise pytest.UsageError(str(error)) from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> bool | None:
        """Looks both commits up; where that fails, nothing is collected, which would import the tests."""
        assert self._settings is not None
        try:
            self._line = list_commits(self._settings.root, self._request.good, self._request.bad)
        except NsightError as error:
            self.error = error
        return None if self.error is None else True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Selects the marked tests of exactly this node id or name; where there are none, pytest's -k selects."""
        name = self._request.case
        if not name:
            return
        exact = [item for item in items if name in (item.nodeid, item.name) and is_marked(item)]
        if not exact:
            config.option.keyword = name
            return
        others = [item for item in items if item not in exact]
        items[:] = exact
        if others:
            config.hook.pytest_deselected(items=others)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Searches; no test runs in this process."""
        if self.error is not None:
            return True
        if session.config.option.collectonly:
            return None
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            # pytest's own loop says so.
            return None
        try:
            with interrupted_by_signals():
                self._search(session)
        except NsightError as error:
            self.error = error
        except KeyboardInterrupt as interrupt:
            self.interrupt = interrupt
        return True

    def _search(self, session: pytest.Session) -> None:
        config, request, settings, line = session.config, self._request, self._settings, self._line
        assert settings is not None
        assert line is not None
        case = _choose_case(session.items, request.case, settings)
        arguments, where = worker_arguments(config), config.invocation_params.dir
        check_text((*arguments, str(settings.root), str(where), case.id))
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        progress = ProgressLine(reporter)

        def say(sentence: str) -> None:
            progress.clear()
            if reporter is not None:
                reporter.write_line(f"nsight: {sentence}")

        invocation = Invocation(arguments, where, ask_environment(config))
        limits = SearchLimits(
            request.wants_improvement,
            None if request.minutes is None else time.monotonic() + 60 * request.minutes,
        )
        with RevisionMeasurement(settings, case, invocation, progress.show) as measurement:
            say(f"collector {measurement.title}; {describe_search(line)}")
            for note in measurement.notes:
                say(note)
            search = FirstBadCommit(line, case.id, measurement, limits, say)
            try:
                self.found = search.find()
            except KeyboardInterrupt:
                so_far = search.so_far()
                for text in render_text(so_far, _LOG_WIDTH).splitlines() if so_far is not None else ():
                    say(text)
                raise
            finally:
                progress.clear()


def _choose_case(items: Sequence[pytest.Item], name: str, settings: Settings) -> Case:
    """The one case to measure: the only one selected.

    Raises:
        UsageError: none is, or several are.
    """
    found = [item for item in items if is_marked(item)]
    if not found:
        raise UsageError(
            f"bisect: no test with the mark nsight matches {name or 'the arguments'!r} in the working tree; check "
            "out a commit that has the test, or give its node id, its name or an expression of pytest -k"
        )
    if len(found) > 1:
        names = name_some((item.nodeid for item in found), _MOST_SHOWN)
        raise UsageError(f"bisect: {len(found)} cases match: {names}; give one of these names to -k")
    (item,) = found
    mark = read_mark(item)
    if mark.ranks > 1:
        raise UsageError(f"bisect: {item.nodeid} runs on {mark.ranks} ranks; bisect measures cases of one process")
    given = mark.policy(settings.band, None)
    # Claims are about one tree alone, whatever the other one does.
    return Case(item.nodeid, Policy(band=given.band, metric=given.metric), timeout_s=mark.timeout_s)
