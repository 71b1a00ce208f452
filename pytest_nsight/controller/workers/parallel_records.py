"""Turns the files that several workers of one run left behind into one record for each group of workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.controller.workers.time_limits import read_overdue
from pytest_nsight.controller.workers.unread_records import UnreadRecordError, explain_unread
from pytest_nsight.controller.workers.worker_failure import (
    describe_crash,
    describe_failed_start,
    describe_refusal,
    has_died_after_tests,
)
from pytest_nsight.model.errors import CollectorError
from pytest_nsight.model.trace import Trace
from pytest_nsight.protocol.job import INTERRUPTED_FILE, WORKER_LOG
from pytest_nsight.protocol.manifest import FILE_NAME, Manifest
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.protocol.worker_plan import (
    EXITS_FILE,
    WorkerExit,
    WorkerGroup,
    WorkerPlan,
    WorkerSpec,
    read_exits,
)
from pytest_nsight.trace.process_record import ProcessEnd, ProcessRecord
from pytest_nsight.trace.rank_summary import has_failed, join_manifests

TraceReader = Callable[[Path], tuple[Trace | None, str]]
"""Reads the trace of a worker's folder; without one, says why."""


@dataclass(frozen=True, slots=True)
class _ParallelRun:
    """The folder of a run, read as far as its workers wrote.

    Attributes:
        folder: of the run.
        code: exit code of the supervisor; None if the user's interrupt ended it.
        exits: worker's folder -> how it ended.
        manifests: worker's folder -> its account.
    """

    folder: Path
    code: int | None
    exits: Mapping[str, WorkerExit]
    manifests: Mapping[str, Manifest]

    def exit_of(self, worker: WorkerSpec) -> WorkerExit:
        """How a worker ended; if nothing was recorded, as the supervisor did."""
        return self.exits.get(worker.folder, WorkerExit(self.code))

    def explain_refusal(self, worker: WorkerSpec) -> str:
        """Why a worker ran no test at all, "" if it did."""
        log = self.folder / worker.folder / WORKER_LOG
        manifest, exit_ = self.manifests[worker.folder], self.exit_of(worker)
        if manifest.run:
            return describe_refusal(manifest, log)
        # A worker without an exit of its own was never started: the supervisor's output says why.
        was_started = exit_.code is not None and log.exists()
        return describe_failed_start(exit_.code or 0, log if was_started else self.folder / WORKER_LOG)

    def explain_failure(self, group: WorkerGroup) -> str:
        """Why a group did not come to its end, "" if it did, or if a test that failed on one rank ended all."""
        own = [self.manifests[worker.folder] for worker in group.members]
        has_failing = any(has_failed(manifest, case) for manifest in own for case in manifest.started)
        failures = []
        for rank, (manifest, worker) in enumerate(zip(own, group.members, strict=True)):
            exit_ = self.exit_of(worker)
            refusal = self.explain_refusal(worker)
            prefix = f"rank {rank}: " if len(own) > 1 else ""
            if refusal:
                failures.append(prefix + refusal)
            elif manifest.exit_code is None and exit_.failed_peer:
                if not has_failing:
                    failures.append(
                        f"{prefix}was ended because {exit_.failed_peer} had come to an end without it; "
                        f"see {self.folder}"
                    )
            elif manifest.exit_code is None or has_died_after_tests(manifest, exit_.code):
                log = self.folder / worker.folder / WORKER_LOG
                failures.insert(0, prefix + describe_crash(manifest, exit_.code or 0, log))
        return failures[0] if failures else ""

    def read_group(self, group: WorkerGroup, reader: TraceReader) -> ProcessRecord:
        """The record of one worker, or of the ranks of parallel tests."""
        own = [self.manifests[worker.folder] for worker in group.members]
        is_ranked = len(group.members) > 1
        failure = "" if self.code is None else self.explain_failure(group)
        died = {
            rank
            for rank, worker in enumerate(group.members)
            if own[rank].exit_code is None and not self.exit_of(worker).failed_peer
        }
        traces = [
            reader(self.folder / worker.folder) if manifest.rounds else (None, "")
            for manifest, worker in zip(own, group.members, strict=True)
        ]
        end = ProcessEnd.FAILED if failure else ProcessEnd.COMPLETE
        overdue = read_overdue(self.folder / group.members[0].folder)
        return ProcessRecord(
            join_manifests(own, died) if is_ranked else own[0],
            traces[0][0],
            end=ProcessEnd.INTERRUPTED if self.code is None else end,
            failure=failure,
            trace_error=next((error for _, error in traces if error), ""),
            overdue=overdue.case if overdue is not None else "",
            cases=group.cases,
            ranks=tuple(zip(own, (trace for trace, _ in traces), strict=True)) if is_ranked else (),
            children={
                child: manifest.pid
                for manifest, worker in zip(own, group.members, strict=True)
                for child in self.exit_of(worker).children
            },
        )


def read_parallel_run(
    folder: Path, plan: WorkerPlan, code: int | None, reader: TraceReader
) -> tuple[ProcessRecord, ...]:
    """What the workers of a run left behind.

    Args:
        folder: the run's.
        plan: what was to run.
        code: exit code of the supervisor; None if the user's interrupt ended it.
        reader: gives each worker's trace.

    Raises:
        UnreadRecordError: all came to their end, and the trace of one cannot be read.
        CollectorError: no worker at all got as far as a test.
    """
    workers = [worker for group in plan.groups for worker in group.members]
    manifests = {worker.folder: read_manifest(folder / worker.folder / FILE_NAME) for worker in workers}
    run = _ParallelRun(folder, code, read_exits(folder), manifests)
    refusals = [run.explain_refusal(worker) for worker in workers]
    if code is not None and all(refusals) and not any(manifest.rounds for manifest in manifests.values()):
        raise CollectorError(refusals[0])
    records = tuple(run.read_group(group, reader) for group in plan.groups)
    if code is not None and all(record.end is ProcessEnd.COMPLETE for record in records):
        _raise_first_error(records, folder)
    return records


def _raise_first_error(records: Sequence[ProcessRecord], folder: Path) -> None:
    for record in records:
        if record.trace_error:
            raise UnreadRecordError(explain_unread(record.trace_error, record.manifest), folder)


def read_recorded_parallel_run(folder: Path, reader: TraceReader) -> tuple[ProcessRecord, ...]:
    """The records of a recorded run; its files show whether it was interrupted or failed.

    Raises:
        CollectorError: see read_parallel_run.
    """
    code = None if (folder / INTERRUPTED_FILE).exists() else 0 if (folder / EXITS_FILE).exists() else 1
    return read_parallel_run(folder, WorkerPlan.read(folder), code, reader)
