"""What --nsight adds to pytest's output: words for verdicts, the table, and what failed the session beside it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nsight.controller.outcomes import VerdictText
from pytest_nsight.model.verdicts import SessionResult, VerdictKind
from pytest_nsight.report import terminal
from pytest_nsight.report.escapes import visible
from pytest_nsight.report.registry import workflow_commands
from pytest_nsight.report.table import speaks_unicode

# Verdict -> (letter, word, colour) in pytest's progress; what is absent shows as pytest always does.
_STATUS = {
    VerdictKind.STRUCTURE: ("S", "STRUCTURE", "red"),
    VerdictKind.REGRESSION: ("R", "REGRESSION", "red"),
    VerdictKind.CLAIM: ("C", "CLAIM", "red"),
    VerdictKind.ENVIRONMENT: ("e", "ENVIRONMENT", "yellow"),
    VerdictKind.INCONCLUSIVE: ("?", "INCONCLUSIVE", "yellow"),
    VerdictKind.NO_BASELINE: ("n", "NO_BASELINE", "yellow"),
    VerdictKind.IMPROVEMENT: ("+", "IMPROVEMENT", "green"),
    VerdictKind.IDENTICAL: ("=", "IDENTICAL", "green"),
    VerdictKind.NOT_SAVED: ("!", "NOT_SAVED", "yellow"),
}


def find_status(
    report: pytest.CollectReport | pytest.TestReport,
) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    """The category, letter and word of a verdict's report, None for one that shows as pytest always does."""
    kind = getattr(report, "nsight_verdict", None)
    if kind not in _STATUS or hasattr(report, "wasxfail"):
        return None
    letter, word, colour = _STATUS[kind]
    return report.outcome, letter, (word, {colour: True})


def show_result(
    reporter: pytest.TerminalReporter,
    result: SessionResult,
    header: Sequence[str],
    root: Path,
    root_from_start: str,
) -> None:
    """Writes the table of a session.

    Args:
        reporter: pytest's.
        result: verdicts and notes.
        header: the lines that the head of pytest's output already has.
        root: pytest's root folder.
        root_from_start: path to `root` from the folder where pytest was started, "" if they are the same.
    """
    # Without failures to show, the cursor is still at the end of the last line of progress.
    reporter.ensure_newline()
    reporter.section("nsight", sep="=", cyan=True)
    text = terminal.render(
        replace(result, notes=tuple(note for note in result.notes if f"nsight: {note}" not in header)),
        width=reporter._tw.fullwidth,  # noqa: SLF001 - its only name
        color=reporter._tw.hasmarkup,  # noqa: SLF001
        unicode=speaks_unicode(getattr(sys.stdout, "encoding", None)),
        verbose=reporter.verbosity > 0,
        explained=_explained(reporter),
        root=root_from_start,
    )
    reporter.write_line(text.rstrip("\n"))
    commands = workflow_commands(result, root)
    if commands:
        reporter.write_line(commands.rstrip("\n"))


def show_notes(reporter: pytest.TerminalReporter, notes: Sequence[str]) -> None:
    """Writes sentences that fail nothing."""
    for note in notes:
        reporter.write_line(f"nsight: {visible(note)}")


def show_errors(reporter: pytest.TerminalReporter, errors: Sequence[str]) -> None:
    """Writes sentences on what fails the session."""
    for error in errors:
        reporter.write_line(f"ERROR: {error}", red=True)


def show_strict(reporter: pytest.TerminalReporter, gaps: Sequence[str]) -> None:
    """Writes what was left unmeasured, which fails a session under --nsight-strict."""
    for gap in gaps:
        reporter.write_line(f"FAILED --nsight-strict: {gap}", red=True)


def _explained(reporter: pytest.TerminalReporter) -> set[str]:
    """Cases whose verdict stands among pytest's own failures."""
    if reporter.config.option.tbstyle in ("no", "line"):
        return set()
    return {
        report.nodeid for report in reporter.stats.get("failed", ()) if isinstance(report.longrepr, VerdictText)
    }
