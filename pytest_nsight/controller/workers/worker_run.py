"""Live runs: one worker process measures after the other, each under the chosen collector, in the session's folder.

While one measures, the next ones may already import and collect; see `prewarmed.py`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_nsight.controller.workers.manifest_tail import LateImport, Progress, Tail
from pytest_nsight.controller.workers.prewarmed import (
    PrewarmedWorker,
    WaitingWorkers,
    count_prewarmed,
    list_needed,
)
from pytest_nsight.controller.workers.time_limits import read_overdue
from pytest_nsight.controller.workers.unread_records import UnreadRecordError, explain_unread
from pytest_nsight.controller.workers.worker_failure import (
    describe_crash,
    describe_failed_start,
    describe_refusal,
    has_died_after_tests,
)
from pytest_nsight.controller.workers.worker_starter import LiveSession, WorkerStarter
from pytest_nsight.model.errors import CollectorError
from pytest_nsight.processes.log_files import shorten
from pytest_nsight.processes.process_tree import is_running
from pytest_nsight.protocol.job import DIED_FILE, WORKER_LOG, Assignment
from pytest_nsight.protocol.manifest import FILE_NAME, Manifest
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd, ProcessRecord, summarise_records

# Exit codes of a pytest that came to its end: all passed, or some failed.
_MEASURED = (0, 1)

_MOST_UNREAD_ALONE = 2
"""One case may make its record unreadable, and stand before all others."""

_LONGEST_FAILURE_S = 120.0
"""What takes longer to fail has hung, and would again."""


class LiveSource:
    """Starts a worker for every run and reads what it and the profiler leave behind."""

    def __init__(
        self,
        session: LiveSession,
        watch: Callable[[Progress], None],
        *,
        started: int = 0,
        measures_again: bool = True,
    ) -> None:
        """Prepares a source.

        Args:
            session: what all workers have in common.
            watch: called whenever a worker has moved on.
            started: workers that other sources have started in the session's folder.
            measures_again: whether a process is measured once more if its record cannot be read.
        """
        self._starter = WorkerStarter(session, started=started)
        self._watch = watch
        self._collector = session.collector
        self._keep = session.keep
        self._canaries = session.canaries
        self._upcoming: Sequence[Assignment] = ()
        self._late_imports: set[LateImport] = set()
        self._needed: Collection[str] = ()
        self._has_read = False
        self._most_cases = self._unread_alone = 0
        self._measures_again = measures_again
        self._may_get_ready = True
        self._waiting = WaitingWorkers(self._get_ready, session.collector)

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> tuple[MeasuredProcess, ...]:
        """Measures the cases in one fresh process, and once more if its record cannot be read.

        If it cannot be read the second time either, one of the cases may be the cause, and the process counts as
        failed. Two single cases whose records cannot be read end the session if no record could be so far: then
        nothing works here.

        Args:
            assignment: what to measure.
            upcoming: the next calls', where those are known or likely: their processes start, import and collect
                while this one measures; the first one measures while this one's trace is read, if its cases are
                known.

        Raises:
            CollectorError: nothing of the run can be used, and no other run would fare better.
        """
        self._upcoming = upcoming
        # The processes after this one measure its cases again, or a part of them.
        self._needed = list_needed(self._late_imports, assignment.cases)
        self._most_cases = max(self._most_cases, len(assignment.cases))
        try:
            return self._measure(assignment)
        except UnreadRecordError as error:
            error.leave_out()
            if not self._measures_again:
                raise
            # Ended, too, is the process that has begun with the next assignment: it would measure beside this one.
            self.close()
            return error.note(self._measure(assignment, is_again=True))

    def _measure(self, assignment: Assignment, *, is_again: bool = False) -> tuple[MeasuredProcess, ...]:
        running = self._waiting.take(assignment)
        folder = running.folder
        try:
            with running.process:
                running.release(assignment)
                code = self._starter.follow(running, len(assignment.cases), self._watch, self._look_ahead)
            was_overdue, ended_s = running.process.was_overdue, time.monotonic()
            try:
                record = self._read_record(folder, code, was_overdue=was_overdue)
            except UnreadRecordError as error:
                if was_overdue or time.monotonic() - ended_s > _LONGEST_FAILURE_S:
                    error.leave_out()
                    raise CollectorError(str(error)) from None
                if not is_again:
                    raise
                self._unread_alone += len(assignment.cases) == 1
                if not self._has_read and self._unread_alone >= min(self._most_cases, _MOST_UNREAD_ALONE):
                    error.leave_out()
                    raise CollectorError(str(error)) from None
                record = error.as_failed(read_manifest(folder / FILE_NAME))
            self._has_read = self._has_read or record.trace is not None
            if record.failed_in_canary:
                # The next process measures no canaries: its innocent cases must not fail the same way.
                self._canaries = False
            if record.failed_in_canary or record.has_died_after_tests:
                # Cases that are measured again come first.
                self.close()
            return summarise_records((record,))
        finally:
            running.pipe.close()
            # The raw record must never stay: it holds the environment's secrets.
            self._collector.tidy(folder, keep=self._keep)
            shorten(folder / WORKER_LOG)

    def get_ready(self, upcoming: Sequence[Assignment], late_imports: Collection[LateImport]) -> None:
        """Starts a process that gets ready while others run; does nothing if the CPU is measured.

        Args:
            upcoming: the next calls'. Called again, it starts the next one of their processes.
            late_imports: of the identity pass so far. Those that wait import all of these modules meanwhile, and
                later ones those that their cases need.
        """
        if self._collector.times_cpu or not self._may_get_ready:
            return
        self._late_imports.update(late_imports)
        try:
            self._waiting.fill(upcoming[: count_prewarmed()])
            self._waiting.import_early({one.module for one in self._late_imports})
        except CollectorError:
            # What keeps it from starting is reported when its assignment comes.
            self._may_get_ready = False

    def close(self) -> None:
        """Ends the processes that wait for an assignment that will not come."""
        self._waiting.close()

    @property
    def started(self) -> int:
        """Workers that this source and those before it have started in the session's folder."""
        return self._starter.started

    def _get_ready(self, tree: str) -> PrewarmedWorker:
        """Starts a worker, which gets as far as its first test and waits."""
        folder, run = self._starter.next_run()
        return self._starter.get_ready(folder, self._starter.job(run, tree, canaries=self._canaries))

    def _look_ahead(self, tail: Tail, progress: Progress) -> None:
        """Starts the next processes once this one measures; the first gets its assignment once this one has ended.

        After a process that failed, the assignment waits: the cases left undone are measured first.
        """
        upcoming = self._upcoming
        if not upcoming:
            return
        has_ended = tail.exit_code in _MEASURED and not is_running(tail.pid)
        # Not earlier, because it would disturb this one's start. If the CPU is measured, only after this one's end,
        # and only a process that is certainly needed: its imports would disturb the measurement.
        times_cpu = self._collector.times_cpu
        is_time = has_ended if times_cpu else bool(progress.case or progress.done)
        try:
            if is_time and not (times_cpu and not upcoming[0].cases):
                self._waiting.fill(upcoming[: 1 if times_cpu else count_prewarmed(progress.total)])
                self._waiting.import_early(self._needed)
            if has_ended and not times_cpu:
                self._waiting.release(upcoming[0])
        except CollectorError:
            # What keeps it from starting is reported when its assignment comes.
            self._upcoming = ()

    def _read_record(self, folder: Path, code: int | None, *, was_overdue: bool) -> ProcessRecord:
        """What the worker left behind.

        Args:
            folder: of the run.
            code: exit code of the worker, None if the user's interrupt ended it.
            was_overdue: whether a profiler around it was ended because it came to no end.

        Raises:
            CollectorError: nothing of the run can be used, and no other run would fare better.
        """
        journal, log = folder / FILE_NAME, folder / WORKER_LOG
        if code is None:
            return self._read_trace(read_manifest(journal), folder, ProcessEnd.INTERRUPTED)
        if not journal.exists():
            raise CollectorError(describe_failed_start(code, log, self._collector.explain_log(log)))
        manifest = read_manifest(journal)
        refusal = describe_refusal(manifest, log)
        if refusal:
            raise CollectorError(refusal)
        # The signal that ended the profiler does not concern the worker, which had completed.
        has_died = has_died_after_tests(manifest, code) and not was_overdue
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
                raise UnreadRecordError(explain_unread(str(error), manifest), folder) from None
            return ProcessRecord(manifest, None, end, failure, str(error))
        return ProcessRecord(manifest, trace, end, failure)
