"""The inner process: a pytest of its own that measures the cases of one run and tells a manifest about it.

Started by launch/runner.py or launch/fanout.py with a folder; job.json in it says what to do, turn.json with which
cases once it is this process's assignment. The plugin object here is registered instead of the controller's, and sees the
same command line as the user's pytest.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from pytest_nsight.collectors.base import Recorder
from pytest_nsight.model.values import Work
from pytest_nsight.protocol.job import Assignment, Job
from pytest_nsight.protocol.manifest import FILE_NAME, FORMAT_VERSION
from pytest_nsight.protocol.manifest_events import Journal
from pytest_nsight.protocol.mark import find_partners
from pytest_nsight.protocol.parent_pipe import PipeFromParent
from pytest_nsight.protocol.ranks import no_barrier, open_barriers
from pytest_nsight.worker.device import current_device
from pytest_nsight.worker.extra_rounds import CanarySchedule, PairSchedule
from pytest_nsight.worker.fixture import Measurement
from pytest_nsight.worker.measured_case import CaseMeasurement
from pytest_nsight.worker.other_tree_plugin import OtherTreePlugin, install_mapping
from pytest_nsight.worker.rank_plugin import RankPlugin, UnablePlugin
from pytest_nsight.worker.rounds import PairBody, Stopwatch

PLUGIN_NAME = "nsight-worker"

# Options that select by what an earlier session saw: the job has selected already.
_SELECTIONS = ("lf", "failedfirst", "newfirst", "stepwise", "stepwise_skip", "stepwise_reset")

# Options of report writers whose files belong to the user's pytest: the worker must not write them too.
_REPORT_FILES = ("xmlpath", "htmlpath", "report_log", "json_report_file", "allure_report_dir", "csv_path")


class Worker:
    """The hooks of the inner pytest."""

    __name__ = PLUGIN_NAME  # pytest registers a plugin object under this name

    def __init__(
        self,
        job: Job,
        journal: Journal,
        recorder: Recorder,
        parent_pipe: PipeFromParent,
        barrier: Callable[[], None] = no_barrier,
    ) -> None:
        self._parent_pipe = parent_pipe
        self._barrier = barrier
        self.job = job
        self._journal = journal
        self._recorder = recorder
        self._stopwatch: Stopwatch | None = None
        self._measurements: dict[str, CaseMeasurement] = {}
        self._assignment = Assignment(())
        self._track = PairSchedule((), {})
        self._canaries = CanarySchedule(0, 0)

    @property
    def stopwatch(self) -> Stopwatch:
        """Made at the first measurement, when the test's own imports have chosen the device."""
        if self._stopwatch is None:
            device = current_device(self.job.root_pid)
            self._journal.write(
                "device",
                name=device.name,
                board=device.board,
                environment={**device.environment, **self.job.environment},
            )
            self._stopwatch = Stopwatch(device, self._recorder, self._journal, self._barrier)
        return self._stopwatch

    def race(self, racer: PairBody) -> None:
        """Measures a case in turns with the one that it claims to beat, or that claims to beat it."""
        # Ranks must do the same, and whether there is room to keep a body is each rank's own answer.
        if self.job.ranks == 1:
            self._track.enter(racer, self.stopwatch, self._journal)

    def tell_work(self, case: str, work: Work) -> None:
        """Tells what a round of the case has to do."""
        self._journal.write_work(case, work)

    def measurement(self, item: pytest.Item) -> Measurement:
        """What stands behind the nsight fixture of this test."""
        return self._measurement(item)

    def _measurement(self, item: pytest.Item) -> CaseMeasurement:
        if item.nodeid not in self._measurements:
            self._measurements[item.nodeid] = CaseMeasurement(self, item)
        return self._measurements[item.nodeid]

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Takes back what only the user's own pytest may do."""
        for name in _REPORT_FILES:
            if getattr(config.option, name, None):
                setattr(config.option, name, None)
        for name in _SELECTIONS:
            if getattr(config.option, name, None):
                setattr(config.option, name, False)
        config.option.usepdb = False
        if config.pluginmanager.hasplugin("benchmark"):
            from pytest_nsight.worker.measured_case import BenchmarkPlugin  # noqa: PLC0415 - rarely needed

            config.pluginmanager.register(BenchmarkPlugin(self.measurement), "nsight-benchmark")

    def pytest_collectstart(self) -> None:
        """Ends between two modules if nobody waits for the result: in the middle of one it might hold a lock."""
        if self._parent_pipe.is_closed:
            os._exit(0)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tells of a module that cannot be imported here, though the user's pytest could."""
        if report.failed:
            self._journal.write("fault", text=f"{report.nodeid}: {report.longreprtext}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Waits for its assignment: everything is imported and collected, and no fixture has touched the device yet."""
        assignment = self._parent_pipe.wait_for_assignment()
        if assignment is None:
            # Nobody waits for the result; what would be torn down here was never set up.
            os._exit(0)
        self._assignment = assignment
        self._journal.write("assignment", seed=assignment.seed)
        self._canaries = CanarySchedule(len(assignment.cases), assignment.seed or 0)
        self._select(session)

    def _select(self, session: pytest.Session) -> None:
        """Leaves the cases of the assignment, in its order."""
        position = {case: index for index, case in enumerate(self._assignment.cases)}
        deselected = [item for item in session.items if item.nodeid not in position]
        session.items = sorted(
            (item for item in session.items if item.nodeid in position), key=lambda item: position[item.nodeid]
        )
        session.testscollected = len(session.items)
        self._track = PairSchedule(self._assignment.cases, find_partners(session.items))
        if deselected:
            session.config.hook.pytest_deselected(items=deselected)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tells that a case begins."""
        self._journal.write("case", case=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tells the outcome of a phase in pytest's own serialisation."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._journal.write("report", case=report.nodeid, report=data)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Tells that a case is over."""
        self._journal.write("case_end", case=nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """Measures the canaries that are due after a case, once a test has shown on which device."""
        result = yield
        if self._stopwatch is not None:
            self._track.leave(item.nodeid, self._stopwatch)
        if self.job.canaries and self._stopwatch is not None and item.nodeid in self._assignment.cases:
            done = self._assignment.cases.index(item.nodeid) + 1 if nextitem else len(self._assignment.cases)
            self._canaries.measure(self._stopwatch, self._journal, done, self.job.rounds)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Keeps pytest.exit from ending a run of which the user's pytest would then learn nothing."""
        try:
            return (yield)
        except pytest.exit.Exception as wish:
            pytest.fail(f"pytest.exit: {wish.msg} (with --nsight it ends this test only)", pytrace=False)

    pytest_runtest_setup = pytest_runtest_teardown = pytest_runtest_call

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keeps the config, which pytest_runtest_logreport is not given."""
        self._config = session.config

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Spares this process, whose end the next one waits for, pytest's five last searches for garbage."""
        gc.freeze()

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Measures the whole body of a test that measured nothing itself; its first call was a warm-up."""
        result = yield
        measurement = self._measurement(pyfuncitem)
        if not measurement.has_measured:
            names = pyfuncitem._fixtureinfo.argnames  # noqa: SLF001 - as pytest's own call does
            arguments = {name: pyfuncitem.funcargs[name] for name in names}
            measurement.measure_whole(lambda: pyfuncitem.obj(**arguments))
        return result


def _recorder(job: Job, folder: Path) -> Recorder:
    if job.recorder == "nsys":
        from pytest_nsight.collectors.nsys.ranges import emitter  # noqa: PLC0415 - one recorder is needed

        return emitter()
    from pytest_nsight.collectors.torch.recorder import TorchRecorder  # noqa: PLC0415

    return TorchRecorder(folder)


def _plugins(job: Job, folder: Path, journal: Journal, parent_pipe: PipeFromParent) -> list[object]:
    recorder = _recorder(job, folder)
    if job.ranks > 1:
        rounds, cases = open_barriers(folder.parent, job.rank, job.ranks)
        return [Worker(job, journal, recorder, parent_pipe, rounds.wait), RankPlugin(folder, job.rank, cases)]
    return [Worker(job, journal, recorder, parent_pipe), UnablePlugin(job.unable)]


def main(folder: Path) -> int:
    """Runs the job of a run's folder; returns pytest's exit code."""
    job = Job.read(folder)
    try:
        parent_pipe = PipeFromParent(folder)
    except FileNotFoundError:
        # Called off before it had begun.
        return 1
    journal = Journal(folder / FILE_NAME)
    journal.write(
        "run",
        format=FORMAT_VERSION,
        run=job.run,
        session=job.session,
        recorded=job.recorded,
        commit=job.commit,
        pid=os.getpid(),
        tree=job.tree,
    )
    # As in the user's pytest, so that both import the same modules.
    sys.path[:] = job.path
    plugins = _plugins(job, folder, journal, parent_pipe)
    if job.mapping is not None:
        install_mapping(job.mapping)
        plugins.append(OtherTreePlugin(journal, job.mapping))
    code = pytest.main(list(job.arguments), plugins=plugins)
    journal.write("end", code=int(code))
    return int(code)
