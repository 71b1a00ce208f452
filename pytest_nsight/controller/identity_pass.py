"""The identity pass: a worker without a profiler, which says what each case launches before any is timed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from pytest_nsight.collectors.child_process import ChildProcess, shorten, start
from pytest_nsight.collectors.cupti.availability import CuptiInstallation, find_working, variables_of
from pytest_nsight.controller.worker_failure import describe_crash, describe_failed_start, describe_refusal
from pytest_nsight.controller.worker_run import LiveSource
from pytest_nsight.gate.loop import Source
from pytest_nsight.model.errors import CollectorError, RecordingError
from pytest_nsight.protocol.job import INTERRUPTED_FILE, WORKER_LOG, Assignment, Job
from pytest_nsight.protocol.manifest import FILE_NAME, Manifest, read_manifest
from pytest_nsight.protocol.worker_start import start_command
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd

FOLDERS = "identity-*"
"""Folders of identity passes in a session's: one for each tree."""


class IdentityPass(LiveSource):
    """Identifies the launches of cases in a fresh process."""

    def execute(
        self,
        assignment: Assignment,
        upcoming: Sequence[Assignment] = (),  # noqa: ARG002 - nothing gets ready beside it
    ) -> tuple[MeasuredProcess, ...]:
        """Runs the cases once. What keeps it from that is the record's failure, and no error: they can be timed."""
        folder = self._session.folder / f"identity-{self.started + 1:03}"
        try:
            running = self._get_ready(assignment.tree)
            try:
                with running.process:
                    running.release(assignment)
                    code = self._follow(running, assignment, ())
            finally:
                running.pipe.close()
                shorten(folder / WORKER_LOG)
            return (_read(folder, assignment.tree, code),)
        except (CollectorError, RecordingError) as error:
            return (MeasuredProcess(_no_manifest(assignment.tree), end=ProcessEnd.FAILED, failure=str(error)),)

    @cached_property
    def _installation(self) -> CuptiInstallation:
        """The CUPTI that works here, tried once for both trees."""
        return find_working()

    def _next_run(self) -> tuple[Path, str]:
        self.started += 1
        return self._session.folder / f"identity-{self.started:03}", f"{self._session.id}/identity pass"

    def _job(self, run: str, tree_name: str) -> Job:
        return replace(super()._job(run, tree_name), canaries=False, identifies=True)

    def _start(self, module: str, folder: Path, tree_name: str) -> ChildProcess:
        tree = self._session.trees[tree_name]
        own = {**self._session.variables, **tree.environ, **variables_of(self._installation)}
        environ = {**os.environ, "PYTHONUNBUFFERED": "1", **own}
        return start(start_command(module, folder), folder / WORKER_LOG, tree.where, environ)


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
