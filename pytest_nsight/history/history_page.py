"""The histories as one HTML page: a case unfolds to its plot, its change points and a row for each session."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from pytest_nsight.history.case_history import CaseHistory
from pytest_nsight.history.history_plot import PlotLevel, PlotPoint, plot_history, plot_key
from pytest_nsight.history.history_report import (
    FoundHistories,
    explain_changes,
    write_commit,
    write_remark,
)
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.units import count, duration, durations, percent
from pytest_nsight.report.escapes import html_text
from pytest_nsight.report.html_page import render_page, search_bar, table
from pytest_nsight.report.registry import refuse_tests
from pytest_nsight.report.stored_cases import shorten_boards
from pytest_nsight.report.verdict_text import labels

_MOST_OPEN = 5


def write_page(found: FoundHistories, path: Path) -> None:
    """Writes the page.

    Raises:
        UsageError: the file cannot be written, or holds tests.
    """
    refuse_tests(path, "the page of --html", ".html")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render_html(found), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise UsageError(f"--html: {path} was not written ({why}); choose another place") from error


def render_html(found: FoundHistories) -> str:
    """The whole page; cases with changes stand first."""
    ordered = sorted(found.histories, key=lambda one: not one.changes)
    are_open = found.are_chosen and len(ordered) <= _MOST_OPEN
    days = sorted(point.recorded[:10] for one in ordered for point in one.points)
    span = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    header = f"""<h1>History of {count(len(ordered), "case")}</h1>
<p class="soft">{html_text(f"{', '.join(dict.fromkeys(one.model for one in ordered))}, {span}")}</p>
{"".join(f"<p>Note: {html_text(note)}</p>" for note in found.notes)}"""
    named = labels(one.subject for one in ordered)
    cases = (
        _render_case(one, f"{named[one.subject]}, {one.model}", number, found, is_open=are_open)
        for number, one in enumerate(ordered, 1)
    )
    main = search_bar(Counter(map(_kind, ordered)), "cases and reasons") + "".join(cases)
    return render_page(f"History of {count(len(ordered), 'case')}", header, main)


def _kind(one: CaseHistory) -> str:
    if one.missing_sessions:
        return "TOO_FEW_SESSIONS"
    return "CHANGED" if one.changes else "STEADY"


def _render_case(one: CaseHistory, name: str, number: int, found: FoundHistories, *, is_open: bool) -> str:
    first, last = one.points[0].time_ns, one.points[-1].time_ns
    change = percent(last / first - 1) if first else ""
    text = " ".join([name, *(point.remark for point in one.points)]).lower()
    title = count(len(one.changes), "change") if one.changes else count(len(one.points), "session")
    return (
        f'<details class="subject" id="case-{number}" data-kind="{_kind(one)}" data-text="{html_text(text)}"'
        f"{' open' if is_open else ''}>"
        f'<summary><span class="kind {"warn" if one.changes else "calm"}">{title}</span>'
        f'<span class="case">{html_text(name)}</span><span class="number">{durations(first, last)}</span>'
        f'<span class="number">{change}</span></summary>'
        f"<div>{_plot(one)}{_changes(one, found)}{_sessions(one)}</div></details>\n"
    )


def _plot(one: CaseHistory) -> str:
    points = [
        PlotPoint(
            title=f"{point.recorded[:16].replace('T', ' ')}, commit {write_commit(point.commit)}, {point.board}, "
            f"{count(point.runs, 'run')}: {duration(point.time_ns)}, {write_remark(point)}",
            day=point.recorded[:10],
            time_ns=point.time_ns,
            is_stored=point.is_stored,
            has_reason=write_remark(point).startswith("stored: "),
        )
        for point in one.points
    ]
    starts = [next(place for place, point in enumerate(one.points) if point is each.after) for each in one.changes]
    levels = [PlotLevel(0, one.changes[0].before_ns)] if one.changes else []
    levels += [PlotLevel(start, each.after_ns) for start, each in zip(starts, one.changes, strict=True)]
    plot = plot_history(points, levels)
    return f"{plot}{plot_key()}" if plot else ""


def _changes(one: CaseHistory, found: FoundHistories) -> str:
    lines = "\n".join(html_text(line) for line in explain_changes(one, found))
    return f"<h3>Changes</h3><pre>{lines}</pre>"


def _sessions(one: CaseHistory) -> str:
    head = ("date", "commit", "board", "", "runs", "time")
    boards = shorten_boards([point.board for point in one.points])
    rows = [
        (
            point.recorded[:16].replace("T", " "),
            write_commit(point.commit),
            board,
            write_remark(point),
            str(point.runs),
            duration(point.time_ns),
        )
        for point, board in zip(one.points, boards, strict=True)
    ]
    return "<h3>Sessions</h3>" + table(head, reversed(rows), numbers_from=4)
