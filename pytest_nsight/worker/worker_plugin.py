"""The hooks of a worker's pytest: it measures the cases of its assignment and records them in the journal.

`Worker` takes the place of the controller's plugin. Pytest has the command line that the user typed.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict
from functools import partial

import pytest

from pytest_nsight.collectors.base import Identifier, Recorder
from pytest_nsight.protocol.job import Job
from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest_events import NEVER_CALLED, CaseWarning
from pytest_nsight.protocol.parent_pipe import PipeFromParent
from pytest_nsight.protocol.ranks import no_barrier
from pytest_nsight.worker.assigned_cases import AssignedCases
from pytest_nsight.worker.fixture import Nsight, explain_deferred
from pytest_nsight.worker.late_imports import LateImports
from pytest_nsight.worker.measured_case import CaseMeasurement, MeasuredRun

PLUGIN_NAME = "nsight-worker"


class Worker:
    """The plugin that measures, and records what pytest reports."""

    __name__ = PLUGIN_NAME  # pytest registers a plugin object under this name

    def __init__(
        self,
        job: Job,
        journal: Journal,
        recorder: Recorder,
        parent_pipe: PipeFromParent,
        barrier: Callable[[], None] = no_barrier,
        identifier: Identifier | None = None,
    ) -> None:
        self._journal = journal
        self._parent_pipe = parent_pipe
        self.run = MeasuredRun(job, journal, recorder, barrier, identifier)
        self._measurements: dict[str, CaseMeasurement] = {}
        self._cases = AssignedCases(journal, parent_pipe)
        self._is_repeating = False
        self._reported: set[str] = set()

    @property
    def run_id(self) -> str:
        """Id of the run that this process is, for conftest files that change with it."""
        return self.run.job.run

    def measurement(self, item: pytest.Item) -> CaseMeasurement:
        """The measurement behind the fixture of this test."""
        if item.nodeid not in self._measurements:
            self._measurements[item.nodeid] = CaseMeasurement(self.run, item)
        return self._measurements[item.nodeid]

    def pytest_configure(self, config: pytest.Config) -> None:
        """Keeps the config; puts the measuring fixture in front of pytest-benchmark's where that is installed."""
        self._config = config
        if config.pluginmanager.hasplugin("benchmark"):
            from pytest_nsight.worker.benchmark_fixture import BenchmarkPlugin  # noqa: PLC0415 - rarely needed

            config.pluginmanager.register(BenchmarkPlugin(self.measurement), "nsight-benchmark")

    def pytest_collectstart(self) -> None:
        """Ends the process before a module if its result is not wanted."""
        if self._parent_pipe.is_given_up:
            os._exit(0)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Records a module that cannot be imported here, though the user's pytest could."""
        if report.failed:
            self._journal.write("fault", text=f"{report.nodeid}: {report.longreprtext}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Waits for the assignment after all imports and the collection, before any fixture touches the device."""
        assignment = self._cases.wait(session)
        if assignment is None:
            # Nothing needs a teardown yet.
            os._exit(0)
        self.run.assign(assignment, session.items)
        if self.run.identifier is not None:
            # Garbage is collected after each case: modules need not be looked through again. No fixture exists yet.
            gc.collect()
            gc.freeze()
            LateImports(self._journal).watch()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Records that a case begins."""
        self._journal.write("case", case=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Records the outcome of a phase in pytest's own serialisation."""
        if self._is_repetition(report):
            return
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        # Another plugin's attribute that JSON would change is of no use to that plugin in the user's pytest. The
        # user's properties are only written out, so their text is better than nothing.
        kept = {
            name: value
            for name, value in data.items()
            if name == "user_properties" or not _is_changed_by_json(value)
        }
        self._journal.write("report", case=report.nodeid, report=kept)

    def _is_repetition(self, report: pytest.TestReport) -> bool:
        """Whether a round reports a subtest again that the first call, or an earlier round as failed, reported."""
        key = f"{report.nodeid} {report.outcome} {getattr(report, 'context', '')}"
        is_new = not self._is_repeating or (report.failed and key not in self._reported)
        self._reported.add(key)
        return not is_new

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Records that a case is over."""
        self._journal.write("case_end", case=nodeid)

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str, nodeid: str) -> None:
        """Records a warning of a case; those of the collection are the user's pytest's own, too."""
        if when == "runtest":
            self._journal.write("warning", **asdict(CaseWarning.of(nodeid, warning_message)))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Measures what is due between two cases, and asks for more of them if few are left."""
        result = yield
        self.run.finish_case(item.nodeid, is_last=nextitem is None)
        self._cases.extend(item.session, nextitem)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fails a test that goes on after an exception of what it measures."""
        result = yield from _ending_this_test_only()
        if measurement := self._measurements.get(item.nodeid):
            measurement.check_end()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """Turns pytest.exit into a failure of the test."""
        return (yield from _ending_this_test_only())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Drops the test's last measurement: a plugin may run a failed test again, which then measures again.

        Not every such plugin reports the attempt before.
        """
        if self._measurements.pop(item.nodeid, None) is not None:
            self._journal.write("attempt", case=item.nodeid)
        return (yield from _ending_this_test_only())

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Writes the remaining identities and ends garbage collection."""
        self.run.write_identities(is_last=True)
        # Freezes the collector, so that pytest's final collections do not delay the next worker.
        gc.freeze()

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Measures the whole body of a test that measured nothing itself; its first call was a warm-up."""
        result = yield
        measurement = self.measurement(pyfuncitem)
        if not measurement.has_measured:
            names = pyfuncitem._fixtureinfo.argnames  # noqa: SLF001 - as pytest's own call does
            arguments = {name: pyfuncitem.funcargs[name] for name in names}
            fixture = arguments.get("nsight")
            if isinstance(fixture, Nsight) and not fixture.is_used:
                warnings.warn(NEVER_CALLED, pytest.PytestWarning, stacklevel=1)
            if why := explain_deferred(pyfuncitem.obj):
                # A plugin has run it, such as anyio's.
                pytest.fail(f"the test cannot be measured as a whole: {why}", pytrace=False)
            self._is_repeating = True
            try:
                measurement.measure_whole(partial(pyfuncitem.obj, **arguments))
            finally:
                self._is_repeating = False
        return result


def _ending_this_test_only() -> Generator[None, object, object]:
    """Turns pytest.exit into a failure of the test: otherwise the cases after it would not be measured."""
    try:
        return (yield)
    except pytest.exit.Exception as request:
        pytest.fail(f"pytest.exit: {request.msg} (with --nsight it ends this test only)", pytrace=False)


def _is_changed_by_json(value: object) -> bool:
    """Whether JSON has no such thing: a set, or a key that is no text."""
    if isinstance(value, Mapping):
        return any(not isinstance(key, str) or _is_changed_by_json(one) for key, one in value.items())
    if isinstance(value, list | tuple):
        return any(map(_is_changed_by_json, value))
    return isinstance(value, set | frozenset)
