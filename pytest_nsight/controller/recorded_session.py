"""Recorded runs: what live workers and collectors left in a session's folder, read again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_nsight.collectors.lookup import read_kept_trace
from pytest_nsight.controller.workers.identity_folders import read_identity_passes
from pytest_nsight.controller.workers.parallel_records import TraceReader, read_recorded_parallel_run
from pytest_nsight.controller.workers.time_limits import read_overdue
from pytest_nsight.model.errors import CollectorError, RecordingError
from pytest_nsight.model.trace import Trace
from pytest_nsight.processes.log_files import read_tail
from pytest_nsight.protocol.job import (
    DIED_FILE,
    INTERRUPTED_FILE,
    UNREAD_FILE,
    WORKER_LOG,
    Assignment,
    was_measured_again,
)
from pytest_nsight.protocol.manifest import FILE_NAME
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.protocol.worker_plan import has_plan
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd, ProcessRecord, summarise_records


class ReplaySource:
    """Hands out the processes of a recorded session, oldest first."""

    def __init__(self, folder: Path, *, for_save: bool = False) -> None:
        """Looks for recorded processes.

        Args:
            folder: of the session.
            for_save: whether the runs become baselines. Those that were interrupted are left out then.

        Raises:
            RecordingError: the folder holds none, or none that came to its end.
        """
        self._identity_passes = read_identity_passes(folder)
        # If all cases are identical, no run follows the identity pass.
        self._folders = _list_runs(folder) if self._identity_passes else _find_runs(folder)
        if for_save:
            self._identity_passes = tuple(
                one for one in self._identity_passes if one.end is not ProcessEnd.INTERRUPTED
            )
            self._folders = list_whole_runs(folder)
            if not self._folders:
                raise RecordingError(
                    f"no run of {folder} came to its end, so there is nothing to save: measure again with "
                    "--nsight --nsight-save"
                )
        self.processes = len(self._folders)
        self._next = 0

    @property
    def session(self) -> str:
        """The id of the recorded session, "" where no process has come as far as to write it."""
        if self._identity_passes:
            return self._identity_passes[0].manifest.session
        journals = [path for run in self._folders for path in (run / FILE_NAME, *run.glob(f"*/{FILE_NAME}"))]
        return next((read_manifest(path).session for path in journals if path.exists()), "")

    @property
    def has_identities(self) -> bool:
        """Whether the session began with an identity pass."""
        return bool(self._identity_passes)

    def execute(
        self,
        assignment: Assignment,
        upcoming: Sequence[Assignment] = (),  # noqa: ARG002
    ) -> tuple[MeasuredProcess, ...]:
        """The next recorded process, or those that ran side by side.

        Raises:
            RecordingError: its record lacks the trace or cannot be read.
        """
        if assignment.identifies:
            return self._identity_passes
        if self._next == self.processes:
            return ()
        folder = self._folders[self._next]
        self._next += 1
        return summarise_records(_read_run(folder))

    def close(self) -> None:
        """Does nothing: nothing was prepared."""


def read_recorded_session(folder: Path) -> tuple[ProcessRecord, ...]:
    """What every worker process of a recorded session left behind, oldest first.

    Raises:
        RecordingError: the folder holds no recorded run, or a run without its trace.
    """
    return tuple(record for run in _find_runs(folder) for record in _read_run(run))


def _list_runs(folder: Path) -> list[Path]:
    """The recorded runs, but those that were measured again."""
    runs = (run for run in folder.glob("run-*") if (run / FILE_NAME).exists() or has_plan(run))
    return sorted(run for run in runs if not was_measured_again(run))


def list_whole_runs(folder: Path) -> list[Path]:
    """The recorded runs of a session that nobody interrupted."""
    return [run for run in _list_runs(folder) if not any(run.rglob(INTERRUPTED_FILE))]


def _find_runs(folder: Path) -> list[Path]:
    runs = _list_runs(folder)
    if not runs:
        raise RecordingError(
            f"{folder} holds no recorded run (run-*/{FILE_NAME}); give a folder of .nsight/ that was recorded with "
            "--nsight-keep"
        )
    return runs


def _read_run(folder: Path) -> tuple[ProcessRecord, ...]:
    if has_plan(folder):
        return read_recorded_parallel_run(folder, _reader(folder))
    return (_read_record(folder),)


def _read_record(folder: Path) -> ProcessRecord:
    manifest = read_manifest(folder / FILE_NAME)
    end, failure = ProcessEnd.COMPLETE, ""
    overdue = read_overdue(folder)
    if manifest.exit_code is None:
        end, failure = ProcessEnd.FAILED, f"the recorded worker process of {folder.name} died"
    elif (folder / DIED_FILE).exists():
        end, failure = ProcessEnd.FAILED, read_tail(folder / DIED_FILE)
    if overdue is not None:
        failure = overdue.describe(folder / WORKER_LOG)
    if (folder / INTERRUPTED_FILE).exists():
        end, failure = ProcessEnd.INTERRUPTED, ""
    case = overdue.case if overdue is not None else ""
    if not manifest.rounds or (folder / UNREAD_FILE).exists():
        return ProcessRecord(manifest, None, end, failure, overdue=case)
    try:
        return ProcessRecord(manifest, read_kept_trace(folder), end, failure, overdue=case)
    except (CollectorError, RecordingError) as error:
        if end is not ProcessEnd.COMPLETE:
            return ProcessRecord(manifest, None, end, failure, str(error), overdue=case)
        raise RecordingError(f"{folder} cannot be replayed: {error}") from None


def _reader(run: Path) -> TraceReader:
    """Reads the trace of a run of several workers: the one of all of them, once, or each worker's own."""
    shared: list[tuple[Trace | None, str]] = []

    def read(member: Path) -> tuple[Trace | None, str]:
        if not shared:
            shared.append(_read_or_explain(run))
        return shared[0] if shared[0][0] is not None else _read_or_explain(member)

    return read


def _read_or_explain(folder: Path) -> tuple[Trace | None, str]:
    try:
        return read_kept_trace(folder), ""
    except (CollectorError, RecordingError) as error:
        return None, f"{folder} cannot be replayed: {error}"
