"""The report in the terminal: the table, worst first, the reasons of what fails, one line to remember."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from pytest_nsight.model.units import shorten
from pytest_nsight.model.values import Subject
from pytest_nsight.model.verdicts import SessionResult, Verdict, VerdictKind
from pytest_nsight.report.declared_work import WorkCells, limits_lines, reach_of, reach_sentence, work_cells
from pytest_nsight.report.escapes import log_line, visible
from pytest_nsight.report.next_steps import plan_next_steps
from pytest_nsight.report.session_text import setup, summary
from pytest_nsight.report.shared_reasons import EXPLAINED, group_by_reason, state_reason, state_wider_bands
from pytest_nsight.report.table import Column, align, taken, wrap
from pytest_nsight.report.verdict_text import (
    MDE_LEGEND,
    Cells,
    affected_by,
    cells,
    describe_metrics,
    detail_lines,
    fails,
    labels,
    worst_first,
)

_NARROW = 100
_NARROWEST = 60
_ROOM_FOR_CASES = 18
_ROOM_AT_EASE = 24
_RESET = "\x1b[0m"
_RED, _YELLOW, _GREEN = "\x1b[31m", "\x1b[33m", "\x1b[32m"


@dataclass(frozen=True, slots=True)
class _Glyphs:
    arrow: str
    ellipsis: str
    plus_minus: str
    rule: str


_UNICODE = _Glyphs("\N{RIGHTWARDS ARROW}", "\N{HORIZONTAL ELLIPSIS}", "\N{PLUS-MINUS SIGN}", "\u2500")
_ASCII = _Glyphs("->", "..", "+-", "-")


def render(
    result: SessionResult,
    width: int = 80,
    *,
    verbose: bool = False,
    unicode: bool = False,
    color: bool = False,
    explained: Collection[str] = (),
    root: str = "",
) -> str:
    """The session as text for a terminal, no newline at its end.

    Args:
        result: the finished session.
        width: columns of the terminal; 80 to 200 look best, below 60 lines are longer than that.
        verbose: give the sentence of every verdict, not only of those that fail.
        unicode: whether the terminal shows more than ASCII; else other characters are written as escapes.
        color: whether to add ANSI colours.
        explained: cases whose failure the output has explained already; only `verbose` does so again.
        root: see `plan_next_steps`.
    """
    width = max(width, _NARROWEST)
    glyphs = _UNICODE if unicode else _ASCII
    verdicts = worst_first(result.verdicts)
    named = labels(one.subject for one in verdicts)
    columns = _columns([cells(verdict, named[verdict.subject]) for verdict in verdicts], width, glyphs)
    table = _table(columns, verdicts, result, width, glyphs) if verdicts else []
    if color:
        codes = ["", "", *(_color(verdict, strict=result.strict) for verdict in verdicts)]
        table = [f"{code}{line}{_RESET}" if code else line for code, line in zip(codes, table, strict=True)]
    sections = [
        [*wrap(setup(result), width), *_limits(result, width), *_legend(columns, width, glyphs)],
        [*table, *(part for line in state_wider_bands(verdicts, named) for part in wrap(line, width))],
        _reasons(
            [v for v in verdicts if verbose or v.subject.case not in explained],
            named,
            result,
            width,
            verbose=verbose,
            root=root,
        ),
        [line for note in result.notes for line in wrap(f"note: {visible(note)}", width)],
        [f"saved: {visible(path)}" for path in result.saved],
        wrap(summary(result), width),
    ]
    text = "\n\n".join("\n".join(map(log_line, lines)) for lines in sections if lines)
    return text if unicode else text.encode("ascii", "backslashreplace").decode("ascii")


def _limits(result: SessionResult, width: int) -> list[str]:
    if all(run.work is None for run in result.runs):
        return []
    return [part for line in limits_lines(result) for part in wrap(line, width)]


def _table(
    columns: Sequence[Column], verdicts: Sequence[Verdict], result: SessionResult, width: int, glyphs: _Glyphs
) -> list[str]:
    work = _work_columns([work_cells(reach_of(verdict, result)) for verdict in verdicts])
    lines = align(_insert(columns, work, width), width, glyphs.ellipsis)
    return [lines[0], glyphs.rule * max(map(len, lines)), *lines[1:]]


def _legend(columns: Sequence[Column], width: int, glyphs: _Glyphs) -> list[str]:
    """What the table's headers leave open."""
    meanings = {
        f"change {glyphs.plus_minus}": f"{glyphs.plus_minus} is half the width of the 90 % confidence interval",
        "MDE": MDE_LEGEND,
    }
    shown = (meanings[column.header] for column in columns if column.header in meanings)
    return [part for line in shown for part in wrap(line, width)]


def _columns(rows: Sequence[Cells], width: int, glyphs: _Glyphs) -> list[Column]:
    def column(header: str, text: Callable[[Cells], str], *, is_number: bool = True) -> Column:
        return Column(header, [text(row) for row in rows], is_number)

    case = column("case", lambda row: row.case, is_number=False)
    verdict = column("verdict", lambda row: row.verdict, is_number=False)
    if not any(row.change for row in rows):
        return [case, column("now", lambda row: row.now), verdict]
    open_ones = [column("MDE", lambda row: row.mde)] if any(row.mde for row in rows) else []
    if width >= _NARROW:
        numbers = [
            column("baseline", lambda row: row.baseline),
            column("now", lambda row: row.now),
            column("change", lambda row: row.change),
            column("90 % interval", lambda row: row.interval),
        ]
        return _with_mde([case, *(each for each in numbers if any(each.cells)), verdict], open_ones, width)
    header = f"baseline {glyphs.arrow} now"
    pair = column(header, lambda row: row.pair.replace("->", glyphs.arrow))
    wide = column(f"change {glyphs.plus_minus}", lambda row: _change(row, glyphs))
    change = column("change", lambda row: row.change)
    if not any(row.interval for row in rows):
        return [case, pair, change, verdict]
    # Columns give way before names do.
    choices = [[pair, wide, verdict], [pair, change, verdict]]
    fitting = (others for others in choices if _is_readable(case, width - taken(others), glyphs))
    return _with_mde([case, *next(fitting, choices[-1])], open_ones, width)


def _with_mde(columns: list[Column], open_ones: list[Column], width: int) -> list[Column]:
    """All columns where no name has to be shortened for the last one; a verdict's reason says what it says."""
    extended = [*columns, *open_ones]
    return extended if columns[0].width + taken(extended[1:]) <= width else columns


def _is_readable(case: Column, room: int, glyphs: _Glyphs) -> bool:
    """Whether names in so much room keep apart by their two ends alone."""
    names = set(case.cells)
    ends = {shorten(name, room, glyphs.ellipsis) for name in names}
    return room >= min(case.width, _ROOM_AT_EASE) and len(ends) == len(names)


def _work_columns(rows: Sequence[WorkCells]) -> list[Column]:
    """The most important first; none where no case declares work."""
    columns = [
        Column("of limit", [row.share for row in rows]),
        Column("GB/s", [row.gigabytes_per_s for row in rows]),
        Column("TFLOP/s", [row.teraflops_per_s for row in rows]),
    ]
    return [column for column in columns if any(column.cells)]


def _insert(columns: Sequence[Column], work: Sequence[Column], width: int) -> list[Column]:
    """All columns, and before the verdict as many of those of work as leave room for names that differ."""
    place = next(index for index, column in enumerate(columns) if column.header == "verdict")
    names = columns[0].cells
    fitting = len(work)
    while fitting:
        room = width - taken([*columns[1:], *work[:fitting]])
        cut = {shorten(name, room, _ASCII.ellipsis) for name in names}
        if room >= min(columns[0].width, _ROOM_FOR_CASES) and len(cut) == len(set(names)):
            break
        fitting -= 1
    return [*columns[:place], *work[:fitting], *columns[place:]]


def _change(row: Cells, glyphs: _Glyphs) -> str:
    if not row.half_width:
        return row.change
    return f"{row.change.removesuffix(' %')} {glyphs.plus_minus} {row.half_width}"


def _color(verdict: Verdict, *, strict: bool) -> str:
    if fails(verdict, strict=strict):
        return _RED
    if verdict.kind.fails_strict:
        return _YELLOW
    return "" if verdict.kind in (VerdictKind.UNCHANGED, VerdictKind.IDENTICAL) else _GREEN


def _reasons(
    verdicts: Sequence[Verdict],
    named: dict[Subject, str],
    result: SessionResult,
    width: int,
    *,
    verbose: bool,
    root: str,
) -> list[str]:
    failing = [verdict for verdict in verdicts if fails(verdict, strict=result.strict)]
    explained = [verdict for verdict in verdicts if verbose or _is_explained(verdict, result)]
    lines = []
    for (kind, _), subjects in group_by_reason(explained, each_figure=verbose).items():
        lines += wrap(f"{kind.value} {state_reason(subjects, named)}", width)
        for verdict in subjects:
            if verbose or verdict.kind is not VerdictKind.ENVIRONMENT:
                for line in detail_lines(verdict):
                    lines += wrap(line, width, indent="    ")
            if verbose:
                for line in _list_details(verdict, result):
                    lines += wrap(line, width, indent="    ")
    steps = plan_next_steps(failing, result, root)
    if steps is not None:
        origin, *commands = steps.lines
        # A command that is wrapped cannot be copied.
        lines += [*wrap(origin, width), *commands]
    silent = Counter(
        verdict.kind for verdict in verdicts if verdict.kind.fails_strict and not _is_explained(verdict, result)
    )
    if silent and not verbose:
        kinds = ", ".join(f"{number} {kind.value}" for kind, number in silent.items())
        lines.append(f"-v gives the reasons of {kinds}")
    return lines


def _is_explained(verdict: Verdict, result: SessionResult) -> bool:
    """Whether the reason of a verdict is shown without -v."""
    return fails(verdict, strict=result.strict) or verdict.kind in EXPLAINED or verdict.saves_other_launches


def _list_details(verdict: Verdict, result: SessionResult) -> Iterator[str]:
    """What -v adds to a verdict's reason."""
    if cause := affected_by(verdict, result):
        yield f"affected by {cause}"
    means = None if verdict.subject.part else result.metrics.get(verdict.subject.case)
    if means is not None:
        yield f"GPU metrics: {describe_metrics(means)}"
    reach = reach_of(verdict, result)
    if reach is not None:
        yield reach_sentence(reach)
