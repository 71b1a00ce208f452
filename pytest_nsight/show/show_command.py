"""The arguments of `pytest-nsight show`, and what the command prints.

The modules that read recordings are imported when the command runs: every other command starts without them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_nsight.model.argument_types import positive_number
from pytest_nsight.model.errors import UsageError
from pytest_nsight.report.table import terminal_width
from pytest_nsight.show.table_columns import COLUMNS

if TYPE_CHECKING:
    from pytest_nsight.analysis.round_clocks import RoundClocks
    from pytest_nsight.model.trace import Trace

_REPORT = (
    "an .sqlite export or a .json trace of the PyTorch profiler, also as .gz or .xz, a .nsys-rep or .qdrep report, "
    "or a run's folder"
)


def add_show_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what the command takes.

    Args:
        parser: of the command.
    """
    parser.add_argument("report", type=Path, help=_REPORT)
    parser.add_argument(
        "--range", default="", metavar="NAME", help="only ranges with NAME in their name, or in that of the tables"
    )
    parser.add_argument("--domain", help='only ranges of this NVTX domain; "" is the default one')
    parser.add_argument(
        "--top", type=positive_number, default=15, metavar="N", help="rows of a table (default: 15)"
    )
    parser.add_argument("--full-names", action="store_true", help="kernels with the names that the profiler gave")
    parser.add_argument(
        "--category",
        action="append",
        default=[],
        metavar="NAME=PATTERN",
        help="category of kernels with PATTERN",
    )
    text = "what one range of that name does, such as infer=512tokens or scores=8.05e8FLOP: latency and rates"
    parser.add_argument("--work", action="append", default=[], metavar="RANGE=AMOUNT", help=text)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print all tables as JSON")
    text = f"print one table as CSV: {', '.join(COLUMNS)}"
    output.add_argument("--csv", choices=tuple(COLUMNS), metavar="TABLE", help=text)
    text = "write the whole timeline for https://ui.perfetto.dev as trace-event JSON; .json.gz compresses"
    output.add_argument("--perfetto", type=Path, metavar="PATH", help=text)


def write_shown(options: argparse.Namespace) -> str:
    """What the command prints.

    Args:
        options: as parsed.

    Returns:
        The page, the tables as JSON or CSV, or where the timeline was written; without a newline at its end.

    Raises:
        NsightError: the recording cannot be read, or has nothing that was asked for.
    """
    from pytest_nsight.analysis.categories import CategoryRule  # noqa: PLC0415
    from pytest_nsight.analysis.range_work import DeclaredRangeWork  # noqa: PLC0415
    from pytest_nsight.collectors.open_recording import load_trace  # noqa: PLC0415
    from pytest_nsight.show.page import View, render  # noqa: PLC0415
    from pytest_nsight.show.records import write_csv, write_json  # noqa: PLC0415

    rules = tuple(CategoryRule.parse(text) for text in options.category)
    works = tuple(DeclaredRangeWork.parse(text) for text in options.work)
    view = View(options.range, options.domain, options.top, options.full_names, rules, works)
    trace = load_trace(options.report)
    if options.perfetto:
        from pytest_nsight.show.trace_events import write_trace_events  # noqa: PLC0415

        _refuse_recording(options.report, options.perfetto)
        events = write_trace_events(trace, options.perfetto)
        return f"{options.perfetto}: {events:,} events; open it in https://ui.perfetto.dev"
    if options.json:
        return write_json(view.analyse(trace))
    if options.csv:
        return write_csv(view.analyse(trace), options.csv)
    clocks = _compare_clocks(options.report, trace) if options.report.is_dir() else ()
    return render(trace, terminal_width(), view, clocks)


def _refuse_recording(report: Path, output: Path) -> None:
    """Refuses to write over the recording, or over any file of the run's folder that holds it."""
    from pytest_nsight.protocol.manifest import FILE_NAME  # noqa: PLC0415

    if not output.exists():
        return
    if output.samefile(report):
        raise UsageError(f"{output} is the recording, which would be lost; choose another place")
    home = (report if report.is_dir() else report.parent).resolve()
    if home in output.resolve().parents and (home / FILE_NAME).exists():
        raise UsageError(f"{output} is a file of the recorded run, which would be lost; choose another place")


def _compare_clocks(folder: Path, trace: Trace) -> tuple[RoundClocks, ...]:
    """The cases of a run's folder on both clocks; none where its manifest is missing."""
    from pytest_nsight.analysis.round_clocks import compare_clocks  # noqa: PLC0415
    from pytest_nsight.protocol.manifest import FILE_NAME  # noqa: PLC0415
    from pytest_nsight.protocol.manifest_reader import read_manifest  # noqa: PLC0415

    journal = folder / FILE_NAME
    return compare_clocks(read_manifest(journal), trace) if journal.exists() else ()
