"""The identity pass: a worker without a profiler, which says what each case launches before any is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from pytest_nsight.collectors.lookup import find_identifier_variables
from pytest_nsight.controller.progress import Progress
from pytest_nsight.controller.worker_failure import describe_crash, describe_failed_start, describe_refusal
from pytest_nsight.controller.worker_starter import LiveSession, WorkerStarter
from pytest_nsight.gate.loop import Source
from pytest_nsight.model.errors import CollectorError, RecordingError
from pytest_nsight.processes.child_process import ChildProcess, shorten, start
from pytest_nsight.protocol.job import INTERRUPTED_FILE, WORKER_LOG, Assignment
from pytest_nsight.protocol.manifest import FILE_NAME, Manifest, read_manifest
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd

_PREFIX = "identity"
FOLDERS = f"{_PREFIX}-*"
"""Folders of identity passes in a session's: one for each tree."""


class IdentityPass:
    """Identifies the launches of cases in a fresh process."""

    def __init__(self, session: LiveSession, watch: Callable[[Progress], None]) -> None:
        """Prepares a source.

        Args:
            session: what all workers have in common.
            watch: called whenever a worker has moved on.
        """
        self._starter = WorkerStarter(session, watch, launch=self._launch, prefix=_PREFIX)

    def execute(
        self,
        assignment: Assignment,
        upcoming: Sequence[Assignment] = (),  # noqa: ARG002 - nothing gets ready beside it
    ) -> tuple[MeasuredProcess, ...]:
        """Runs the cases once. What keeps it from that is the record's failure, and no error: they can be timed."""
        folder, run = self._starter.next_run()
        job = self._starter.job(run, assignment.tree, canaries=False)
        job = replace(job, run=f"{job.session}/identity pass", identifies=True)
        try:
            running = self._starter.get_ready(folder, job)
            try:
                with running.process:
                    running.release(assignment)
                    code = self._starter.follow(running, len(assignment.cases))
            finally:
                running.pipe.close()
                shorten(folder / WORKER_LOG)
            return (_read(folder, assignment.tree, code),)
        except (CollectorError, RecordingError) as error:
            return (MeasuredProcess(_no_manifest(assignment.tree), end=ProcessEnd.FAILED, failure=str(error)),)

    def close(self) -> None:
        """Ends nothing: no process gets ready beside it."""

    @cached_property
    def _variables(self) -> Mapping[str, str]:
        """What works here, tried once for both trees."""
        return find_identifier_variables()

    def _launch(self, worker: Sequence[str], folder: Path, where: Path, environ: Mapping[str, str]) -> ChildProcess:
        """Starts a worker without a profiler."""
        return start(worker, folder / WORKER_LOG, where, {**environ, **self._variables})


class IdentifyingSource:
    """A source of runs that begins with an identity pass."""

    def __init__(self, identity_pass: Source, timed: Source) -> None:
        self._identity_pass = identity_pass
        self._timed = timed

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> Sequence[MeasuredProcess]:
        """Identifies or times, as the assignment says.

        Raises:
            CollectorError: nothing of a timed run can be used.
        """
        return (self._identity_pass if assignment.identifies else self._timed).execute(assignment, upcoming)

    def close(self) -> None:
        """Ends what was prepared for a next call that will not come."""
        self._identity_pass.close()
        self._timed.close()


def read_identity_passes(session: Path) -> tuple[MeasuredProcess, ...]:
    """What the identity passes of a recorded session found; none where it had none.

    Raises:
        RecordingError: the record of one is damaged.
    """
    folders = [folder for folder in sorted(session.glob(FOLDERS)) if (folder / FILE_NAME).exists()]
    return tuple(_read_recorded(read_manifest(folder / FILE_NAME), folder) for folder in folders)


def _read_recorded(manifest: Manifest, folder: Path) -> MeasuredProcess:
    if (folder / INTERRUPTED_FILE).exists():
        return MeasuredProcess(manifest, end=ProcessEnd.INTERRUPTED)
    if manifest.exit_code is None and not manifest.identity_fault:
        return MeasuredProcess(manifest, end=ProcessEnd.FAILED, failure=f"the process of {folder.name} died")
    return MeasuredProcess(manifest)


def _read(folder: Path, tree: str, code: int | None) -> MeasuredProcess:
    journal, log = folder / FILE_NAME, folder / WORKER_LOG
    if not journal.exists():
        failure = describe_failed_start(code, log) if code is not None else "it was interrupted"
        return MeasuredProcess(_no_manifest(tree), end=ProcessEnd.FAILED, failure=failure)
    manifest = read_manifest(journal)
    if code is None:
        return MeasuredProcess(manifest, end=ProcessEnd.INTERRUPTED)
    if manifest.identity_fault:
        return MeasuredProcess(manifest)
    if manifest.exit_code is not None:
        return MeasuredProcess(manifest, failure=describe_refusal(manifest, log))
    return MeasuredProcess(manifest, end=ProcessEnd.FAILED, failure=describe_crash(manifest, code, log))


def _no_manifest(tree: str) -> Manifest:
    """The record of a process that left none."""
    return Manifest("", "", "", "", 0, "", "", {}, (), (), (), (), (), None, tree=tree)
