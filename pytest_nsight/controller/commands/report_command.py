"""The command `pytest-nsight report`: sessions that are over, shown again, judged together, or as one table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.controller.commands.joined_shards import is_shard, join_shards
from pytest_nsight.controller.session_folders import SESSION_FILES, is_written_by_session
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.units import count
from pytest_nsight.model.verdicts import SessionResult, VerdictKind
from pytest_nsight.report import terminal
from pytest_nsight.report.registry import (
    ReportFile,
    describe_written,
    publish,
    read_requests,
    refuse_shared_files,
    step_summary_path,
    workflow_commands,
)
from pytest_nsight.report.session_file import join_sessions, read_session
from pytest_nsight.report.session_table import list_rows, read_table, tabulate, write_table
from pytest_nsight.report.table import speaks_unicode


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """What to read and to write.

    Attributes:
        sessions: folders or files of sessions; all shards of one session, or any whole sessions.
        html: file of the HTML page, None for none.
        reports: other forms, each NAME=PATH.
        table: file of the table, None for none.
    """

    sessions: tuple[Path, ...]
    html: str | None = None
    reports: tuple[str, ...] = ()
    table: Path | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """What the command says.

    Attributes:
        text: for the terminal: the table, or the files that were written.
        fails: whether the gate fails.
    """

    text: str
    fails: bool


def report(request: ReportRequest, width: int) -> Reported:
    """Writes what was asked for.

    Args:
        request: what to read and to write.
        width: columns of the terminal.

    Raises:
        NsightError: a session cannot be read, shards do not fit, or a file cannot be written.
    """
    requests = [*([f"html={request.html}"] if request.html else []), *request.reports]
    files = read_requests(requests, Path.cwd(), "--report")
    tables = [ReportFile("table", request.table)] if request.table is not None else []
    refuse_shared_files([*tables, *files])
    _refuse_own_files(request.sessions, [*tables, *files])
    if any(is_shard(path) for path in request.sessions):
        return _report_shards(request, files, width)
    written = _name_files(request, files)
    if request.table is not None:
        write_table(read_table(request.sessions), request.table)
        if not files:
            # A table of many sessions is no gate.
            return Reported(written, fails=False)
    result = join_sessions([read_session(path) for path in request.sessions])
    _publish(result, files)
    fails = any(verdict.kind.fails_in(strict=result.strict) for verdict in result.verdicts)
    text = written or _render(result, width)
    return Reported("\n".join(line for line in (text, _describe_unjudged(result)) if line), fails)


def _refuse_own_files(sessions: Sequence[Path], files: Sequence[ReportFile]) -> None:
    """Refuses to write a report to where a session has its own files; any other may be written again.

    Raises:
        UsageError: a report would be.
    """
    for given in sessions:
        folder = (given.parent if given.is_file() and given.name in SESSION_FILES else given).resolve()
        for file in files:
            path = file.path.resolve()
            is_below = path.is_relative_to(folder) and path != folder
            if path == given.resolve() or (is_below and is_written_by_session(path.relative_to(folder))):
                raise UsageError(
                    f"the report {file.name} would be written to {file.path}, where the session {given} has files "
                    "of its own; give it another file"
                )


def _describe_unjudged(result: SessionResult) -> str:
    """A sentence on cases of shards, which `session.json` holds without a judgement; "" where there are none."""
    cases = {verdict.subject.case for verdict in result.verdicts if verdict.kind is VerdictKind.MEASURED}
    if not cases:
        return ""
    return (
        f"NOT JUDGED: {count(len(cases), 'case')} of shards, which are judged together only; give the shard.json "
        "of each: pytest-nsight report .nsight/*/shard.json"
    )


def _report_shards(request: ReportRequest, files: Sequence[ReportFile], width: int) -> Reported:
    """Judges all shards; says so in the terminal in any case, as the gate does."""
    joined = join_shards(request.sessions)
    if request.table is not None:
        write_table(tabulate(list_rows(joined.result)), request.table)
    _publish(joined.result, files, step_summary_path())
    commands = workflow_commands(joined.result, Path.cwd())
    lines = [_render(joined.result, width), commands.rstrip("\n"), _name_files(request, files)]
    if joined.result.strict:
        lines += [f"FAILED --nsight-strict: {gap}" for gap in joined.gaps]
    return Reported("\n".join(line for line in lines if line), joined.fails)


def _render(result: SessionResult, width: int) -> str:
    return terminal.render(result, width, unicode=speaks_unicode(getattr(sys.stdout, "encoding", None)))


def _name_files(request: ReportRequest, files: Sequence[ReportFile]) -> str:
    """A line for each file that is asked for, as pytest's own sessions have them."""
    paths = [*([request.table] if request.table is not None else []), *(file.path for file in files)]
    return "\n".join(map(describe_written, paths))


def _publish(result: SessionResult, files: Sequence[ReportFile], step_summary: Path | None = None) -> None:
    unwritten = publish(result, files, step_summary=step_summary)
    if unwritten:
        raise UsageError("; ".join(unwritten.values()))
