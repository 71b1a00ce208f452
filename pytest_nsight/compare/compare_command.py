"""The arguments of `pytest-nsight compare`, what it compares and what it prints.

The modules that read and judge are imported when the command runs: every other command starts without them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nsight.model.argument_types import percentage, positive_number
from pytest_nsight.model.errors import UsageError
from pytest_nsight.report.table import terminal_width

if TYPE_CHECKING:
    from pytest_nsight.compare.changes import Changes

FORMATS = ("text", "markdown", "json", "csv")


def add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what the command takes.

    Args:
        parser: of the command.
    """
    what = "a session's folder, a baseline file or folder, or a trace"
    parser.add_argument("before", type=Path, metavar="A", help=f"the baseline: {what}")
    parser.add_argument("after", type=Path, metavar="B", help="what it is compared with, of the same kind")
    parser.add_argument(
        "--band", type=percentage, metavar="PCT", help="change that counts (default: 1 of runs, 5 of traces)"
    )
    parser.add_argument(
        "--top", type=positive_number, default=15, metavar="N", help="rows of a table (default: 15)"
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="of the output (default: text)")


def compare(before: Path, after: Path, band: float | None = None) -> Changes:
    """What changed from one recording to another.

    Args:
        before: a session's folder, a baseline file or folder of them, or anything that `pytest-nsight show` reads.
        after: another one that holds the same: runs, or a trace.
        band: change that counts, as a ratio; None for the default, 1 % of runs and 5 % of traces.

    Raises:
        UsageError: one holds runs and the other a trace, or they have nothing in common.
        NsightError: one of them cannot be read.
    """
    from pytest_nsight.compare.run_changes import compare_runs  # noqa: PLC0415
    from pytest_nsight.compare.sources import RunSource, TraceSource, load_source  # noqa: PLC0415
    from pytest_nsight.compare.trace_changes import compare_traces  # noqa: PLC0415

    one, other = load_source(before), load_source(after)
    if isinstance(one, RunSource) and isinstance(other, RunSource):
        return compare_runs(one, other, band)
    if isinstance(one, TraceSource) and isinstance(other, TraceSource):
        return compare_traces(one, other, band)
    runs, trace = (before, after) if isinstance(one, RunSource) else (after, before)
    raise UsageError(f"{runs} holds runs and {trace} a trace; compare two of one kind")


def write_changes(changes: Changes, form: str, top: int) -> str:
    """A comparison in one of the FORMATS.

    Args:
        changes: the comparison.
        form: one of FORMATS.
        top: how many rows each part of the table has, for people.
    """
    from pytest_nsight.compare.change_report import (  # noqa: PLC0415
        render_csv,
        render_json,
        render_markdown,
        render_text,
    )

    if form == "json":
        return render_json(changes)
    if form == "csv":
        return render_csv(changes)
    if form == "markdown":
        return render_markdown(changes, top)
    return render_text(changes, terminal_width(), top)
