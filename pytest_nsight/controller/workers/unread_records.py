"""A worker that came to its end, and whose record cannot be read: an importer fails by chance now and then."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_nsight.model.errors import CollectorError
from pytest_nsight.protocol.job import DIED_FILE, UNREAD_FILE
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.phase_reports import first_line_of
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd, ProcessRecord


class UnreadRecordError(CollectorError):
    """The record of a run cannot be read, though its tests came to their end.

    Attributes:
        folder: of the run.
    """

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message)
        self.folder = folder

    def leave_out(self) -> None:
        """Marks the run as one that counts for nothing, for a replay."""
        _write(self.folder / UNREAD_FILE, str(self))

    def as_failed(self, manifest: Manifest) -> ProcessRecord:
        """The record of a process that failed: one of its cases may be the cause, as it is the second time."""
        failure = f"the record of its process could not be read: {self}"
        _write(self.folder / DIED_FILE, failure)
        self.leave_out()
        return ProcessRecord(manifest, None, ProcessEnd.FAILED, failure)

    def note(self, processes: Sequence[MeasuredProcess]) -> tuple[MeasuredProcess, ...]:
        """What was measured again, with a note that says why."""
        first, *others = processes
        note = f"the record of a process could not be read, and its tests were measured again: {self}"
        return (replace(first, notes=(note, *first.notes)), *others)


def explain_unread(error: str, manifest: Manifest) -> str:
    """Why a record cannot be read; where all that were measured failed, their recorder may have, so with the first.

    Args:
        error: what its reader says.
        manifest: of the process.
    """
    failures = {
        report.case: first_line_of(report.report.get("longrepr"))
        for report in reversed(manifest.reports)
        if report.report["outcome"] == "failed"
    }
    measured = list(dict.fromkeys(one.case for one in manifest.rounds))
    if not measured or not all(failures.get(case) for case in measured):
        return error
    return f"{error}; {measured[0]} failed there: {failures[measured[0]]}"


def _write(file: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
