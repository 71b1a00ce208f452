"""What `pytest-nsight history` found, and its text: a line for each case, or the points and changes of some."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.history.case_history import CaseHistory, HistoryPoint, TimeChange, build_histories
from pytest_nsight.history.change_points import FEWEST_OBSERVATIONS
from pytest_nsight.history.git_history import CommitsBetween, GitHistory
from pytest_nsight.history.measured_runs import find_runs
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.units import count, durations, p_value, percent, short_commit
from pytest_nsight.model.units import duration as write_duration
from pytest_nsight.model.values import METRICS
from pytest_nsight.report.escapes import visible
from pytest_nsight.report.stored_cases import shorten_boards
from pytest_nsight.report.table import Column, align, taken
from pytest_nsight.report.verdict_text import labels

_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.-=+*%#"
_WIDEST_LINE = 40


@dataclass(frozen=True, slots=True)
class FoundHistories:
    """The cases that were asked for.

    Attributes:
        histories: in order of model and subject, at least one.
        notes: sentences on what could not be read.
        are_chosen: whether words chose them, and not all were asked for.
        find_commits: the commits between two; None where git does not know both.
    """

    histories: tuple[CaseHistory, ...]
    notes: tuple[str, ...]
    are_chosen: bool
    find_commits: Callable[[str, str], CommitsBetween | None]


def find_histories(baselines: Path, sessions: Path, words: Sequence[str], metric: str) -> FoundHistories:
    """The history of the cases whose ids hold every one of these words; of all without words.

    Args:
        baselines: the folder of all baselines.
        sessions: the folder of sessions.
        words: parts of node ids.
        metric: the duration that is looked at.

    Raises:
        UsageError: there is no such metric, or no run of such a case.
    """
    if metric not in METRICS:
        raise UsageError(f"--metric {metric} is no duration; choose from {', '.join(METRICS)}")
    found = find_runs(baselines, sessions, words, metric)
    histories = build_histories(found.runs)
    if not histories:
        which = f"of a case with {' and '.join(map(repr, words))} in its id" if words else "of any case"
        why = "".join(f"; {note}" for note in found.notes)
        raise UsageError(
            f"no run {which} is stored in {baselines} or its git history, or recorded in {sessions}{why}; "
            "save one with pytest --nsight --nsight-save"
        )
    return FoundHistories(histories, found.notes, bool(words), GitHistory(baselines).list_between)


def render_text(found: FoundHistories, width: int, *, unicode: bool) -> str:
    """One line for each case, or the points and changes of those that words chose.

    Args:
        found: the cases.
        width: columns of the terminal.
        unicode: whether it shows more than ASCII.
    """
    if found.are_chosen:
        named = labels(one.subject for one in found.histories)
        sections = [_describe(one, named[one.subject], found, width, unicode=unicode) for one in found.histories]
    else:
        sections = [_overview(found.histories, width, unicode=unicode)]
    notes = [f"note: {note}" for note in found.notes]
    text = "\n\n".join("\n".join(section) for section in [*sections, *([notes] if notes else [])])
    return text if unicode else text.encode("ascii", "backslashreplace").decode("ascii")


def _overview(histories: Sequence[CaseHistory], width: int, *, unicode: bool) -> list[str]:
    ellipsis = "…" if unicode else ".."
    named = labels(one.subject for one in histories)
    columns = [
        Column("case", [named[one.subject] for one in histories], is_number=False),
        Column("model", [one.model for one in histories], is_number=False),
        Column("sessions", [str(len(one.points)) for one in histories]),
        Column("since", [one.points[0].recorded[:10] for one in histories]),
        Column("newest", [write_duration(one.points[-1].time_ns) for one in histories]),
        Column("changes", [str(len(one.changes)) for one in histories]),
        Column("", [_draw(one, unicode=unicode) for one in histories], is_number=False),
    ]
    return align(columns, width, ellipsis)


def _draw(one: CaseHistory, *, unicode: bool) -> str:
    return draw_sparkline([point.time_ns for point in one.points], unicode=unicode)


def _describe(one: CaseHistory, name: str, found: FoundHistories, width: int, *, unicode: bool) -> list[str]:
    points = one.points
    times = [point.time_ns for point in points]
    starts = {id(change.after) for change in one.changes}
    columns = [
        Column("date", [point.recorded[:16].replace("T", " ") for point in points], is_number=False),
        Column("commit", [write_commit(point.commit) for point in points], is_number=False),
        Column("board", shorten_boards([point.board for point in points]), is_number=False),
        Column("runs", [str(point.runs) for point in points]),
        Column("time", [write_duration(time) for time in times]),
        Column("", ["<- change" if id(point) in starts else "" for point in points], is_number=False),
        Column("", [write_remark(point) for point in points], is_number=False),
    ]
    lines = [f"{name}, {one.model}: {count(len(points), 'session')}"]
    lines.append(f"{draw_sparkline(times, unicode=unicode)}  {durations(min(times), max(times), joined_by=' to ')}")
    # A date that is cut says nothing: a long remark wraps instead.
    lines += align(columns, max(width, columns[0].width + taken(columns[1:])), "…" if unicode else "..")
    return [*lines, *explain_changes(one, found)]


def explain_changes(one: CaseHistory, found: FoundHistories) -> list[str]:
    """A line for each change point, below it the commits that it falls between; else why there is none."""
    if one.missing_sessions:
        verb = "is" if one.missing_sessions == 1 else "are"
        return [f"change points need {FEWEST_OBSERVATIONS} sessions; {one.missing_sessions} {verb} missing"]
    if not one.changes:
        return ["no change point"]
    return [
        line
        for change in one.changes
        for line in _write_change(change, found.find_commits(change.before.commit, change.after.commit))
    ]


def _write_change(change: TimeChange, commits: CommitsBetween | None) -> list[str]:
    ratio = change.after_ns / change.before_ns - 1
    times = durations(change.before_ns, change.after_ns)
    head = f"change: {times} ({percent(ratio)}, {p_value(change.p_value)})"
    before, after = write_commit(change.before.commit), write_commit(change.after.commit)
    where = f"{head} between {before} and {after}"
    if change.before.board != change.after.board:
        where += ", on another board"
    if commits is None:
        return [f"{where}: git does not know both commits"]
    if not commits.number:
        return [f"{where}: no commit of {after} is new"]
    lines = [
        f"{where}: {count(commits.number, 'commit')}",
        *(f"  {visible(subject)}" for subject in commits.subjects),
    ]
    more = commits.number - len(commits.subjects)
    return [*lines, f"  and {more} more"] if more else lines


def draw_sparkline(values: Sequence[float], *, unicode: bool) -> str:
    """Values as a line of bars, the smallest lowest, by their logarithms; at most 40, each a median of neighbours.

    A level is at least 1 %, so that noise does not look like changes.
    """
    levels = _LEVELS if unicode else _ASCII_LEVELS
    bins = min(len(values), _WIDEST_LINE)
    borders = [round(index * len(values) / bins) for index in range(bins + 1)]
    logs = [math.log(max(statistics.median(values[start:end]), 1e-3)) for start, end in itertools.pairwise(borders)]
    low = min(logs)
    reach = max(max(logs) - low, math.log(1.01) * len(levels))
    return "".join(levels[min(int((value - low) / reach * len(levels)), len(levels) - 1)] for value in logs)


def write_commit(commit: str) -> str:
    """A commit as people read it, with its "+" for a tree with changes; "unknown" for none."""
    return short_commit(commit) if commit.strip("+") else "unknown"


def write_remark(point: HistoryPoint) -> str:
    """Whether a point is a baseline, and why; else the verdict of its session."""
    if point.is_stored:
        return f"stored: {point.remark}" if point.remark and point.remark != "SAVED" else "stored"
    return point.remark
