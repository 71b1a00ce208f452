"""What a run under Nsight Systems left behind, and the SQLite database that is made of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pytest_nsight.collectors.nsys.find import ANSWER_S, Installation
from pytest_nsight.collectors.nsys.known_errors import NEWER_REPORT, Complaint, own_output, quote, recognise
from pytest_nsight.collectors.nsys.profiling import export_command
from pytest_nsight.collectors.nsys.python_stack_table import INCLUDE_PAYLOADS
from pytest_nsight.model.errors import NsysError
from pytest_nsight.processes.child_process import ENDED, Wrapper, start
from pytest_nsight.processes.log_files import last_lines, read_tail

EXPORT_LIMIT_S = 600.0
"""An export may take so long, and longer for a large report: Nsight Systems exports some 15 MB a second."""

_EXPORT_BYTES_PER_S = 500_000
_MAGIC = b"SQLite format 3\0"
_CRAMPED_BYTES = 1024**2


def find_report(report: Path, log: Path) -> Path:
    """The report of a run that is over.

    Nsight Systems returns the worker's exit code even if it could not write the report, and it writes to
    its TMPDIR where it cannot write to the wanted place; only its output says so.

    Args:
        report: where it should be; nsys's TMPDIR is its folder.
        log: the output of the run.

    Raises:
        NsysError: there is none; says why.
    """
    if report.is_file() and report.stat().st_size:
        return report
    text = read_tail(log)
    for path in map(Path, _generated(text)):
        if path.suffix == ".nsys-rep" and path.is_file():
            return path
    cause, remedy = _find_cause(text, report.parent)
    raise NsysError(f"Nsight Systems wrote no report to {report}: {cause}; {remedy}; its output is in {log}.")


def find_complaint(log: Path) -> Complaint | None:
    """What nsys reported as wrong although it wrote a report; None if nothing.

    Args:
        log: the output of the run.
    """
    text = own_output(read_tail(log))
    ended = re.search(f"^{re.escape(ENDED)}(.*)$", text, re.MULTILINE)
    if ended:
        return Complaint(quote(ended[0]), ended[1].rstrip("."), "measure again", is_loss=True)
    return _recognise_detail(text)


def export(
    installation: Installation,
    report: Path,
    sqlite: Path,
    environ: Mapping[str, str],
    *,
    log: Path | None = None,
    limit_s: float = EXPORT_LIMIT_S,
    with_payloads: bool = False,
) -> None:
    """Writes a report's contents into an SQLite database, which appears whole or not at all.

    Args:
        installation: the nsys that wrote the report.
        report: a `.nsys-rep` file.
        sqlite: the database to write; replaced if it exists. Its folder is nsys's TMPDIR.
        environ: environment variables for nsys.
        log: file for nsys's output, which stays if it fails; None for `.export.log` beside the database.
        limit_s: how long it may take, and longer for a large report.
        with_payloads: whether the payloads of marks are wanted, such as Python's stacks. A version that cannot
            write them leaves them out.

    Raises:
        NsysError: nsys cannot read the report or write the database.
        CollectorError: nsys cannot be started.
        UsageError: nsys would write the database somewhere else.
    """
    partial = sqlite.with_name(f"{sqlite.stem}.part{os.getpid()}.sqlite")
    log = log or sqlite.with_suffix(".export.log")
    size_bytes = report.stat().st_size if report.exists() else 0
    limit_s += size_bytes / _EXPORT_BYTES_PER_S
    own_environ = {**environ, "TMPDIR": str(sqlite.parent)}
    options = (INCLUDE_PAYLOADS,) if with_payloads and _exports_payloads(installation) else ()
    command = export_command(installation, report, partial, options)
    try:
        with start(command, log, sqlite.parent, own_environ, Wrapper(shell_codes=True)) as process:
            code = process.wait(limit_s)
        if code is None:
            raise NsysError(
                f"Nsight Systems {installation.version_text} did not export {report} ({size_bytes / 1e6:.0f} MB) "
                f"within {limit_s:.0f} s and was ended; measure again, with fewer rounds if the report is large; "
                f"its output is in {log}."
            )
        if code != 0 or not _is_sqlite(partial):
            raise NsysError(
                f"Nsight Systems {installation.version_text} could not export {report} (exit code {code}): "
                f"{_explain_export(log, sqlite.parent)}; its output is in {log}."
            )
        partial.replace(sqlite)
    finally:
        partial.unlink(missing_ok=True)
    log.unlink(missing_ok=True)


def _exports_payloads(installation: Installation) -> bool:
    """Whether the help of `nsys export` names the option, which came between 2022.4 and 2025.3."""
    command = (installation.path, "export", "--help")
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return INCLUDE_PAYLOADS.partition("=")[0] in answer.stdout + answer.stderr


def _generated(text: str) -> list[str]:
    """Paths that follow the line "Generated:", each indented on its own line."""
    block = re.search(r"^Generated:[ \t]*\n((?:[ \t]+\S.*\n?)+)", text, re.MULTILINE)
    return [line.strip() for line in block[1].splitlines()] if block else []


def _recognise_detail(text: str) -> Complaint | None:
    """A complaint in the importer's own words, where it has printed an error as a tree of fields."""
    known = recognise(text)
    detail = re.search(r'Type: ErrorText\s+Value: "((?:[^"\\]|\\.)*)', text)
    if detail is None or (known is not None and quote(detail[1]) == known.quote):
        return known
    meaning = recognise(detail[1]) or known or Complaint("")
    return Complaint(quote(detail[1].replace("\\n", " ")), meaning.meaning, meaning.remedy, is_loss=True)


def _find_cause(text: str, folder: Path) -> tuple[str, str]:
    """What kept nsys from writing a report into the folder, and the remedy; from its output and the disk."""
    if _is_cramped(folder) or "No space left on device" in text:
        return f"the disk is full at {folder}", "make room there, or choose another folder with --rootdir"
    ended = re.search(f"^{re.escape(ENDED)}(.*)$", text, re.MULTILINE)
    if ended:
        return ended[1].rstrip("."), "measure again; if it stays so, update Nsight Systems"
    known = _recognise_detail(own_output(text))
    if known is not None and known.meaning:
        return f'{known.meaning} ("{known.quote}")', known.remedy
    lines = [line for line in text.splitlines() if line.strip()]
    said = known.quote if known is not None else quote(lines[-1]) if lines else "it said nothing"
    return f"its output ends with {said!r}", "it may have been killed: run it again"


def _explain_export(log: Path, folder: Path) -> str:
    if _is_cramped(folder):
        return f"{folder} is full; make room there"
    text = read_tail(log)
    known = recognise(text, NEWER_REPORT)
    if known is not None:
        return f'{known.meaning} ("{known.quote}"); {known.remedy}'
    said = quote(last_lines(log, 1)) or "it said nothing"
    return f"{said}; measure again and export with the same version"


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
