"""Finds what a run under Nsight Systems left behind, and turns it into an SQLite database."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from pytest_nsight.collectors.child_process import last_lines, start
from pytest_nsight.collectors.nsys.command import export_command
from pytest_nsight.collectors.nsys.find import Installation
from pytest_nsight.collectors.nsys.space import temporary_folder
from pytest_nsight.model.errors import NsysError

_MAGIC = b"SQLite format 3\0"
_CRAMPED_BYTES = 1024**2

# What nsys prints, what that means, and what to do.
_CAUSES = (
    (
        "importer binary and its dependencies were not found",
        "its importer is missing",
        "run `pytest-nsight doctor`, which says what the installation lacks",
    ),
    ("Importer error", "its importer failed", "run `pytest-nsight doctor`, which tries the importer"),
    ("unrecognised option '([^']*)'", "it does not know the option {0}", "install another version"),
    ("^Program not found: (.*)$", "it cannot find the program {0}", "check PATH"),
    (
        "Agent launcher failed|filesystem_error|Invalid truncate size",
        "it cannot work in its temporary folder {temporary}",
        "set TMPDIR to a folder that exists, can be written to and has room",
    ),
)


def find_report(report: Path, log: Path, environ: Mapping[str, str]) -> Path:
    """The report of a run that is over.

    Nsight Systems returns the worker's exit code even if it could not write the report, and it writes to
    the temporary folder where it cannot write to the wanted one; only its output tells.

    Args:
        report: where it should be.
        log: the output of the run.
        environ: environment variables of the run.

    Raises:
        NsysError: there is none; says why.
    """
    if report.is_file() and report.stat().st_size:
        return report
    text = _read(log)
    generated = [Path(line) for line in _generated(text)]
    for path in generated:
        if path.suffix == ".nsys-rep" and path.is_file():
            return path
    raw = next((path for path in generated if path.suffix == ".qdstrm"), None)
    raise NsysError(_explain(text, report, log, temporary_folder(environ), raw))


def remove_unfinished(log: Path, environ: Mapping[str, str]) -> None:
    """Removes what a run that was cut short left in the temporary folder: events, and the whole environment.

    What nsys itself names as left behind stays, since the user is told of it.

    Args:
        log: the output of the run, the worker's included.
        environ: environment variables of the run.
    """
    text = _read(log)
    if _generated(text):
        return
    folder = temporary_folder(environ)
    for path in map(Path, re.findall(r"Generating '(.+?)'\n", text)):
        # The worker writes into the same log, before it on the line and otherwise.
        if path.parent == folder and re.fullmatch(r"nsys-report-[0-9a-f]+\.qdstrm", path.name):
            with contextlib.suppress(OSError):
                path.unlink()


def export(installation: Installation, report: Path, sqlite: Path, environ: Mapping[str, str]) -> None:
    """Writes a report's contents into an SQLite database, which appears whole or not at all.

    Args:
        installation: the nsys that wrote the report.
        report: a `.nsys-rep` file.
        sqlite: the database to write; replaced if it exists. nsys's output goes beside it, into
            `.export.log`, which stays if it fails.
        environ: environment variables for nsys.

    Raises:
        NsysError: nsys cannot read the report or write the database.
        CollectorError: nsys cannot be started.
        UsageError: nsys would write the database somewhere else.
    """
    partial = sqlite.with_name(f"{sqlite.stem}.part{os.getpid()}.sqlite")
    log = sqlite.with_suffix(".export.log")
    try:
        with start(
            export_command(installation, report, partial), log, sqlite.parent, environ, shell_codes=True
        ) as process:
            code = process.wait()
        if code != 0 or not _is_sqlite(partial):
            said = last_lines(log, 1).rstrip(".") or "it said nothing"
            raise NsysError(
                f"Nsight Systems {installation.version_text} could not export {report} (exit code {code}): "
                f"{said}; {_export_remedy(sqlite.parent)}; its output is in {log}."
            )
        partial.replace(sqlite)
    finally:
        partial.unlink(missing_ok=True)
    log.unlink(missing_ok=True)


def _read(log: Path) -> str:
    try:
        return log.read_text(errors="replace")
    except OSError:
        return ""


def _generated(text: str) -> list[str]:
    """Paths that follow the line "Generated:", each indented on its own line."""
    block = re.search(r"^Generated:[ \t]*\n((?:[ \t]+\S.*\n?)+)", text, re.MULTILINE)
    return [line.strip() for line in block[1].splitlines()] if block else []


def _explain(text: str, report: Path, log: Path, temporary: Path, raw: Path | None) -> str:
    cause, remedy = _find_cause(text, report.parent, temporary)
    kept = f" (the raw events are in {raw})" if raw else ""
    return f"Nsight Systems wrote no report to {report}: {cause}{kept}; {remedy}; its output is in {log}."


def _find_cause(text: str, folder: Path, temporary: Path) -> tuple[str, str]:
    """What kept nsys from writing a report into the folder, and the remedy; from its output and the disks."""
    full = [str(each) for each in (folder, temporary) if _is_cramped(each)]
    if full or "No space left on device" in text:
        where = " and ".join(full) or f"{folder} or {temporary}"
        return f"the disk is full at {where}", "make room there, or choose other folders with --rootdir and TMPDIR"
    for pattern, cause, remedy in _CAUSES:
        if match := re.search(pattern, text, re.MULTILINE):
            return cause.format(*match.groups(), temporary=temporary), remedy
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = lines[-1].rstrip(".") if lines else "it said nothing"
    return f"its last words are {said!r}", "it may have been killed: run it again"


def _is_cramped(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < _CRAMPED_BYTES
    except OSError:
        return False


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _export_remedy(folder: Path) -> str:
    if _is_cramped(folder):
        return f"{folder} is full, make room there"
    return "measure again and export with the same version"
