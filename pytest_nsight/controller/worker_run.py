"""Live runs: one worker process measures after the other, each under the chosen collector, in the session's folder.

While one measures, the next ones may already import and collect; see `prewarmed.py`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_nsight.collectors.base import Collector
from pytest_nsight.collectors.child_process import ChildProcess, shorten
from pytest_nsight.collectors.process_family import is_running
from pytest_nsight.controller.prewarmed import PrewarmedPool, PrewarmedWorker, pool_size
from pytest_nsight.controller.progress import Progress, Tail
from pytest_nsight.controller.revision_tree import Tree
from pytest_nsight.controller.time_limits import CaseClock, TimeLimits, end_overdue, read_overdue
from pytest_nsight.controller.worker_failure import (
    describe_crash,
    describe_failed_start,
    describe_refusal,
    describe_removal,
    has_died_after_tests,
    prepare,
)
from pytest_nsight.model.errors import CollectorError, unwritable
from pytest_nsight.protocol.job import DIED_FILE, INTERRUPTED_FILE, WORKER_LOG, Assignment, Job
from pytest_nsight.protocol.manifest import FILE_NAME, Manifest, read_manifest
from pytest_nsight.protocol.parent_pipe import PipeToWorker
from pytest_nsight.protocol.script import Script
from pytest_nsight.protocol.worker_start import start_command
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd, ProcessRecord, summarise_records

POLL_S = 0.05

# Exit codes of a pytest that came to its end: all passed, or some failed.
_MEASURED = (0, 1)


@dataclass(frozen=True, slots=True)
class LiveSession:
    """What all workers of a session have in common.

    Attributes:
        id: of the session.
        recorded: UTC time of its start, ISO 8601.
        commit: git commit of the tested tree, "" when unknown.
        folder: the session's folder.
        collector: records the workers.
        trees: name -> a tree to measure.
        rounds: rounds of a case, None to let the measurement choose.
        keep: whether scrubbed traces stay.
        canaries: whether workers measure the plugin's own cases, too.
        environment: names and values that the controller knows and a comparison depends on.
        limits: how long cases may take.
        variables: environment variables of every worker, beside those of this process.
        script: what the workers run in place of a pytest, None for a pytest.
    """

    id: str
    recorded: str
    commit: str
    folder: Path
    collector: Collector
    trees: Mapping[str, Tree]
    rounds: int | None
    keep: bool
    canaries: bool
    environment: Mapping[str, str]
    limits: TimeLimits
    variables: Mapping[str, str] = field(default_factory=dict)
    script: Script | None = None


class LiveSource:
    """Starts a worker for every run and reads what it and the profiler leave behind."""

    def __init__(self, session: LiveSession, watch: Callable[[Progress], None], *, started: int = 0) -> None:
        """Prepares a source.

        Args:
            session: what all workers have in common.
            watch: called whenever a worker has moved on.
            started: workers that other sources have started in the session's folder.
        """
        self._session = session
        self._collector = session.collector
        self._canaries = session.canaries
        self._watch = watch
        self.started = started
        self._pool = PrewarmedPool(self._get_ready, session.collector, pool_size())

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> tuple[MeasuredProcess, ...]:
        """Measures the cases in one fresh process.

        Args:
            assignment: what to measure.
            upcoming: the next calls', where those are known or likely: their processes start, import and collect
                while this one measures; the first one measures while this one's trace is read, if its cases are
                known.

        Raises:
            CollectorError: nothing of the run can be used, and no other run would fare better.
        """
        running = self._pool.take(assignment)
        folder = running.folder
        try:
            with running.process:
                running.release(assignment)
                code = self._follow(running, assignment, upcoming)
            record = self._read_record(folder, code)
            if record.failed_in_canary:
                # The next process must not fail the same way, whose cases have done nothing wrong.
                self._canaries = False
            if record.failed_in_canary or record.has_died_after_tests:
                # What is measured again has its turn first.
                self.close()
            return summarise_records((record,))
        finally:
            running.pipe.close()
            # Whatever happens, the raw record must not stay: it holds the environment's secrets.
            self._collector.tidy(folder, keep=self._session.keep)
            shorten(folder / WORKER_LOG)

    def close(self) -> None:
        """Ends the processes that wait for an assignment that will not come."""
        self._pool.close()

    def _get_ready(self, tree: str) -> PrewarmedWorker:
        """Starts a worker, which gets as far as its first test and waits."""
        folder, run = self._next_run()
        prepare(folder)
        pipe = write_job(folder, self._job(run, tree))
        try:
            process = self._start("pytest_nsight.worker.inner_pytest", folder, tree)
        except BaseException:
            pipe.close()
            raise
        return PrewarmedWorker(tree, run, folder, process, pipe)

    def _next_run(self) -> tuple[Path, str]:
        """Folder and id of the run that begins."""
        self.started += 1
        return self._session.folder / f"run-{self.started:03}", f"{self._session.id}/{self.started:03}"

    def _job(self, run: str, tree_name: str) -> Job:
        tree = self._session.trees[tree_name]
        return Job(
            run=run,
            session=self._session.id,
            recorded=self._session.recorded,
            commit=tree.commit or self._session.commit,
            collector=self._collector.name,
            rounds=self._session.rounds,
            arguments=tree.arguments,
            path=tree.path,
            environment={**self._session.environment, **self._collector.environment},
            canaries=self._canaries,
            root_pid=os.getpid(),
            tree=tree.name,
            mapping=tree.mapping,
            script=self._session.script,
        )

    def _start(self, module: str, folder: Path, tree_name: str) -> ChildProcess:
        """Starts one of our programs on a run's folder, recorded."""
        tree = self._session.trees[tree_name]
        environ = {**os.environ, "PYTHONUNBUFFERED": "1", **self._session.variables, **tree.environ}
        return self._collector.start(start_command(module, folder), folder, tree.where, environ)

    def _follow(
        self, running: PrewarmedWorker, assignment: Assignment, upcoming: Sequence[Assignment]
    ) -> int | None:
        """Waits for the worker's end and reports its progress; None if the user's interrupt ended it."""
        process, journal = running.process, running.folder / FILE_NAME
        progress = Progress(running.run, "", 0, len(assignment.cases))
        tail, clock = Tail(journal), CaseClock(self._session.limits)
        try:
            while process.poll() is None:
                progress = tail.advance(progress)
                self._watch(progress)
                if overdue := clock.find_overdue(progress, has_ended=not progress.case and tail.has_ended()):
                    end_overdue(running.folder, tail.pid or process.pid, overdue)
                upcoming = self._look_ahead(tail, progress, upcoming)
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            tail.advance(progress)
            process.interrupt(tail.pid)
            if not journal.exists():
                raise
            # A replay must not take the process for one that failed.
            with contextlib.suppress(OSError):
                (running.folder / INTERRUPTED_FILE).touch()
            return None
        self._look_ahead(tail, tail.advance(progress), upcoming)
        if tail.pid is not None and not journal.exists():
            raise CollectorError(describe_removal(journal))
        return process.poll()

    def _look_ahead(self, tail: Tail, progress: Progress, upcoming: Sequence[Assignment]) -> Sequence[Assignment]:
        """Starts the next processes once this one measures; the first gets its assignment once this one has ended.

        A process that failed keeps the assignment: what it left undone is measured first.

        Returns:
            What there still is to look ahead to.
        """
        if not upcoming:
            return ()
        has_ended = tail.exit_code in _MEASURED and not is_running(tail.pid)
        # Not earlier: it would disturb this one's start. Where the processor is what is measured, not before the
        # end, and none that may not be needed: importing would be seen in the measurement.
        times_processor = self._collector.times_processor
        is_time = has_ended if times_processor else bool(progress.case or progress.done)
        try:
            if is_time and not (times_processor and not upcoming[0].cases):
                self._pool.fill(upcoming[:1] if times_processor else upcoming)
            if has_ended and not times_processor:
                self._pool.release(upcoming[0])
        except CollectorError:
            # What keeps it from starting is reported when its assignment comes.
            return ()
        return upcoming

    def _read_record(self, folder: Path, code: int | None) -> ProcessRecord:
        """What the worker left behind.

        Args:
            folder: of the run.
            code: exit code of the worker, None if the user's interrupt ended it.

        Raises:
            CollectorError: nothing of the run can be used, and no other run would fare better.
        """
        journal, log = folder / FILE_NAME, folder / WORKER_LOG
        if code is None:
            return self._read_trace(read_manifest(journal), folder, ProcessEnd.INTERRUPTED)
        if not journal.exists():
            raise CollectorError(describe_failed_start(code, log))
        manifest = read_manifest(journal)
        refusal = describe_refusal(manifest, log)
        if refusal:
            raise CollectorError(refusal)
        has_died = has_died_after_tests(manifest, code)
        if manifest.exit_code is not None and not has_died:
            return self._read_trace(manifest, folder, ProcessEnd.COMPLETE)
        failure = describe_crash(manifest, code, log)
        if has_died:
            with contextlib.suppress(OSError):
                (folder / DIED_FILE).write_text(failure, encoding="utf-8", errors="backslashreplace")
        record = self._read_trace(manifest, folder, ProcessEnd.FAILED, failure)
        overdue = read_overdue(folder)
        return replace(record, overdue=overdue.case) if overdue is not None else record

    def _read_trace(self, manifest: Manifest, folder: Path, end: ProcessEnd, failure: str = "") -> ProcessRecord:
        if not manifest.rounds:
            return ProcessRecord(manifest, None, end, failure)
        try:
            trace = self._collector.collect(folder)
        except CollectorError as error:
            if end is ProcessEnd.COMPLETE:
                raise
            return ProcessRecord(manifest, None, end, failure, str(error))
        return ProcessRecord(manifest, trace, end, failure)


def write_job(folder: Path, job: Job) -> PipeToWorker:
    """Writes the job where its worker looks for it, and makes what ties the worker to this process.

    Raises:
        CollectorError: it cannot be written.
    """
    try:
        job.write(folder)
        return PipeToWorker(folder)
    except OSError as error:
        raise unwritable(folder, error) from None
