"""The hooks of the controller: the pytest that the user started with --nsight.

Workers measure its cases before its own loop begins. The loop then reports the outcome of each case, so that
every option and plugin of pytest works as usual.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.controller.collection.chosen_tests import ChosenTests
from pytest_nsight.controller.collection.collection_record import (
    FIXTURE,
    NOTHING_COLLECTED,
    Collected,
    CollectionRecord,
)
from pytest_nsight.controller.collection.completeness import (
    describe_unmarked,
    describe_unreported,
    find_nothing_measured,
)
from pytest_nsight.controller.conclusion import Conclusion
from pytest_nsight.controller.outcomes import CaseOutcome
from pytest_nsight.controller.pytest_input import (
    ask_environment,
    check_text,
    describe_unused,
    is_narrowed,
    read_cases,
    tolerate_unused_snapshots,
    worker_arguments,
)
from pytest_nsight.controller.reported_tests import ReportedTests, tear_down_before
from pytest_nsight.controller.session import NsightSession
from pytest_nsight.controller.session_evidence import EvidenceOfSession
from pytest_nsight.controller.settings import Settings
from pytest_nsight.controller.terminal_summary import (
    find_status,
    show_errors,
    show_notes,
    show_result,
    show_strict,
)
from pytest_nsight.controller.workers.first_pass import list_calls
from pytest_nsight.controller.workers.progress_line import ProgressLine
from pytest_nsight.model.errors import NsightError
from pytest_nsight.processes.signals import interrupted_by_signals
from pytest_nsight.protocol.mark import is_marked
from pytest_nsight.protocol.ranks import is_one_of_many
from pytest_nsight.protocol.script import FirstPass
from pytest_nsight.report.table import wrap


class Controller:
    """The plugin that has the cases measured, and gives each test its report."""

    def __init__(self, settings: Settings, config: pytest.Config) -> None:
        """Finds out how to measure on this machine.

        Raises:
            NsightError: it cannot be done as asked; the sentence says what to do.
        """
        if is_one_of_many(os.environ):
            raise NsightError(
                "--nsight under torchrun would measure all on every rank: run pytest once, without torchrun, "
                "and mark parallel tests with @pytest.mark.nsight(ranks=...), which starts their ranks"
            )
        arguments = worker_arguments(config)
        check_text((*arguments, str(config.rootpath), str(config.invocation_params.dir), *sys.path))
        self._settings = settings
        self._session = NsightSession(settings, arguments, config.invocation_params.dir)
        self._session.add_notes(describe_unused(config))
        config.add_cleanup(self._session.give_up)
        self._conclusion = Conclusion()
        self._record = CollectionRecord()
        self._chosen = ChosenTests(settings)
        self._header: list[str] = []
        self._evidence_notes: tuple[str, ...] = ()
        self._collected = NOTHING_COLLECTED
        self._unmarked: dict[str, str] = {}
        self._reported_tests = ReportedTests(self._find_outcome, strict=settings.strict)
        self._unreported = ""

    def pytest_report_header(self, config: pytest.Config) -> list[str]:
        """Says how and against what is measured."""
        self._header = self._session.header()
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None:
            return self._header
        return [part for line in self._header for part in wrap(line, reporter._tw.fullwidth)]  # noqa: SLF001

    @property
    def folder_name(self) -> str:
        """The session's folder as people read it."""
        return self._session.folder_name

    def list_calls(self, where: Path) -> FirstPass:
        """The calls of the script that is measured in place of tests, which runs in the folder `where`.

        Raises:
            NsightError: the script fails, or measures nothing.
        """
        with interrupted_by_signals():
            found = list_calls(self._settings, self._session.folder, where, self._session.worker_variables)
        self._record.raised = found.raised
        self._record.unmeasured = found.unmeasured
        # The script's plugin shows them where the header is shown.
        self._header += [f"nsight: {note}" for note in found.unmeasured if self._header]
        return found

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> Generator[None, object, object]:
        """Starts processes that import meanwhile what the collection imports."""
        config = session.config
        if config.option.collectonly:
            return (yield)
        with interrupted_by_signals():
            self._session.start_early(partial(ask_environment, config), is_narrowed=is_narrowed(config))
            return (yield)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Remembers what this tree has and the user did not select."""
        self._record.add_deselected(items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remembers which files give no test, and why."""
        self._record.add_report(report)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, object, object]:
        """Leaves the cases that are affected, and those of this shard; what a conftest leaves out still exists."""
        self._record.add_found(items)
        found = tuple(items)
        result = yield
        tolerate_unused_snapshots(config, found)
        try:
            self._chosen.apply(config, items)
        except NsightError as error:
            raise pytest.UsageError(str(error)) from None
        return result

    def pytest_report_collectionfinish(self) -> list[str]:
        """Says how many cases that leaves."""
        return self._chosen.lines

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Has the marked tests measured, then lets pytest run its loop."""
        items = [item for item in session.items if is_marked(item)]
        self._collected = collected = replace(
            self._record.summarise(session, self._settings),
            affected=self._chosen.affected,
            fingerprint=self._chosen.fingerprint,
        )
        is_wanted = bool(items) or self._chosen.has_emptied
        has_broken_modules = session.testsfailed and not session.config.option.continue_on_collection_errors
        if is_wanted and not session.config.option.collectonly and not has_broken_modules:
            with interrupted_by_signals():
                self._measure(session, items, collected)
        else:
            self._session.give_up()
        # A module that cannot be imported may have the marked tests.
        if not is_wanted and not session.config.option.collectonly and not session.testsfailed:
            self._conclusion = Conclusion(gaps=find_nothing_measured(collected))
        return (yield)

    def _measure(self, session: pytest.Session, items: Sequence[pytest.Item], collected: Collected) -> None:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        line = ProgressLine(reporter)
        # With a limit on failures (maxfail) the user's order stays, so that the first failures are the same. The
        # calls of a script have a fixed order.
        shuffle = not session.config.getvalue("maxfail") and self._settings.script is None
        evidence = EvidenceOfSession(self._settings, session.config, items)
        try:
            self._conclusion = self._session.measure(
                read_cases(items, self._record.deselected, self._settings.root, self._settings.band),
                line.show,
                shuffle=shuffle,
                collected=collected,
                environment=ask_environment(session.config),
            )
            self._evidence_notes = evidence.write(self._session.folder)
        except NsightError as error:
            self._session.give_up()
            # The earlier runs are still shown and written, if they can be judged at all.
            with contextlib.suppress(NsightError):
                self._conclusion = self._session.conclude(is_whole=False)
            raise pytest.UsageError(str(error)) from None
        except KeyboardInterrupt:
            self._conclusion = self._session.conclude(is_whole=False)
            line.clear()
            for item in items:
                if item.nodeid in self._conclusion.outcomes:
                    self._reported_tests.report(item)
            raise
        finally:
            line.clear()
            result = self._conclusion.result
            for verdict in result.verdicts if result is not None else ():
                session.config.hook.pytest_nsight_verdict(config=session.config, verdict=verdict)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Reports a measured test; other tests run here as always."""
        if not is_marked(item):
            return None
        self._reported_tests.report(item)
        tear_down_before(item, nextitem)
        return True

    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> None:
        """Remembers a test without the mark that asks for a fixture by its name, which only its run shows."""
        if fixturedef.argname in (FIXTURE, request.config.getini("nsight_mark")) and not is_marked(request.node):
            self._unmarked[request.node.nodeid] = fixturedef.argname

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.CollectReport | pytest.TestReport) -> Any:
        """Gives verdicts their own letters and words."""
        return find_status(report)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Shows the table, and what failed the session beside it."""
        conclusion, late, settings = self._conclusion, self._find_late_gaps(), self._settings
        if (result := conclusion.result) is not None:
            show_result(terminalreporter, result, self._header, settings.root, settings.root_from_start)
        show_notes(terminalreporter, (*conclusion.written, *self._evidence_notes))
        show_errors(terminalreporter, (*conclusion.errors, *filter(None, [self._unreported])))
        if settings.strict:
            show_strict(terminalreporter, (*conclusion.gaps, *late))
        else:
            # A result has the others among its notes.
            show_notes(terminalreporter, late if conclusion.result is not None else (*conclusion.gaps, *late))

    def _find_late_gaps(self) -> tuple[str, ...]:
        """A sentence on tests without the mark that asked for the fixture by its name while they ran."""
        by_name = {one: name for one, name in self._unmarked.items() if one not in self._collected.unmarked}
        return tuple(filter(None, [describe_unmarked(tuple(by_name), sorted(set(by_name.values())))]))

    def _find_outcome(self, case: str) -> CaseOutcome:
        return self._conclusion.outcomes.get(case) or CaseOutcome.missing(self._session.folder_name)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fails a session that could not write a file, or in which pytest has not reported a failed test.

        Under --nsight-strict what was left unmeasured fails it, too.
        """
        if self._chosen.has_emptied and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK
        if self._conclusion.errors and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        if session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return
        if self._conclusion.result is not None:
            self._unreported = describe_unreported(self._reported_tests.list_unreported(session.items))
        gaps = (*self._conclusion.gaps, *self._find_late_gaps())
        if self._unreported or (self._settings.strict and gaps):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
