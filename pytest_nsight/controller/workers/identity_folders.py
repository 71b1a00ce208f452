"""What the processes of an identity pass leave in their folders, read at their end or in a replay."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from pytest_nsight.controller.workers.time_limits import read_overdue
from pytest_nsight.controller.workers.worker_failure import describe_crash, describe_failed_start, describe_refusal
from pytest_nsight.protocol.job import INTERRUPTED_FILE, WORKER_LOG, Assignment
from pytest_nsight.protocol.manifest import FILE_NAME, Manifest
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd

FOLDER_PREFIX = "identity"
FOLDERS = f"{FOLDER_PREFIX}-*"
"""Folders of identity passes in a session's: one or more for each tree."""


def read_identity_passes(session: Path) -> tuple[MeasuredProcess, ...]:
    """What the identity passes of a recorded session found; none where it had none.

    Raises:
        RecordingError: the record of one is damaged.
    """
    folders = [folder for folder in sorted(session.glob(FOLDERS)) if (folder / FILE_NAME).exists()]
    manifests = [read_manifest(folder / FILE_NAME) for folder in folders]
    identified = {(manifest.tree, case) for manifest in manifests for case in manifest.identities}
    return tuple(
        _read_recorded(manifest, folder, identified) for manifest, folder in zip(manifests, folders, strict=True)
    )


def _read_recorded(manifest: Manifest, folder: Path, identified: Collection[tuple[str, str]]) -> MeasuredProcess:
    if (folder / INTERRUPTED_FILE).exists():
        return MeasuredProcess(manifest, end=ProcessEnd.INTERRUPTED)
    if manifest.identity_fault or (manifest.exit_code is not None and manifest.process_failure is None):
        return MeasuredProcess(manifest)
    # A later process may have identified the cases of a dead one.
    assigned = manifest.started if manifest.assigned is None else manifest.assigned
    left = tuple(case for case in assigned if (manifest.tree, case) not in identified)
    lost = manifest.process_failure
    why = lost.text if lost is not None else f"the process of {folder.name} died"
    # One that died before it was assigned anything: others have done its part, if any have.
    is_missed = not assigned and not any(tree == manifest.tree for tree, _ in identified)
    failure = why if left or is_missed else ""
    return MeasuredProcess(manifest, end=ProcessEnd.FAILED, failure=failure, cases=left)


def read_ended(folder: Path, assignment: Assignment, code: int | None) -> MeasuredProcess:
    """What a process has identified that has just ended; `cases` of one that failed are those that it has not.

    Args:
        folder: of the run.
        assignment: with all cases that it was to identify.
        code: its exit code, None if the user's interrupt ended it.

    Raises:
        RecordingError: its record is damaged.
    """
    journal, log = folder / FILE_NAME, folder / WORKER_LOG
    if not journal.exists():
        failure = describe_failed_start(code, log) if code is not None else "it was interrupted"
        return fail_without_record(assignment.tree, assignment.cases, failure)
    manifest = read_manifest(journal)
    if code is None:
        return MeasuredProcess(manifest, end=ProcessEnd.INTERRUPTED)
    if manifest.identity_fault:
        return MeasuredProcess(manifest)
    left = tuple(case for case in assignment.cases if case not in manifest.identities)
    if (lost := manifest.process_failure) is not None:
        return MeasuredProcess(manifest, end=ProcessEnd.FAILED, failure=lost.text, cases=left)
    if manifest.exit_code is not None:
        return MeasuredProcess(manifest, failure=describe_refusal(manifest, log))
    overdue = read_overdue(folder)
    return MeasuredProcess(
        manifest,
        end=ProcessEnd.FAILED,
        failure=describe_crash(manifest, code, log),
        overdue=overdue.case if overdue else "",
        cases=left,
    )


def fail_without_record(tree: str, cases: Sequence[str], failure: str) -> MeasuredProcess:
    """A process that left no record."""
    manifest = Manifest("", "", "", "", 0, "", "", {}, (), (), (), (), (), None, tree=tree)
    return MeasuredProcess(manifest, end=ProcessEnd.FAILED, failure=failure, cases=tuple(cases))
