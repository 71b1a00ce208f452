"""The history of a case: one point for each session that measured it on one board, oldest first."""

from __future__ import annotations

import enum
import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.history.change_points import FEWEST_OBSERVATIONS, find_change_points
from pytest_nsight.model.values import Subject


class PointSource(enum.Enum):
    """Where a point comes from."""

    BASELINE = "stored"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """One run of one subject.

    Attributes:
        model: name of the folder of the GPU model.
        subject: what was measured.
        run: id of the run, unique over all sessions.
        session: id of its session.
        board: it ran on.
        recorded: UTC time of the session, ISO 8601.
        commit: of the tested tree, "" if unknown; "+" at its end if the tree had changes.
        time_ns: typical time of the duration that is looked at.
        source: where it was found.
        remark: why it became a baseline, or the verdict of its session; "" for neither.
        has_one_level: whether it may be compared: it neither drifts nor has a clock that changes, and no other
            program disturbed it.
    """

    model: str
    subject: Subject
    run: str
    session: str
    board: str
    recorded: str
    commit: str
    time_ns: float
    source: PointSource
    remark: str = ""
    has_one_level: bool = True


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """The runs of one session on one board.

    Attributes:
        session: its id.
        board: the board.
        recorded: UTC time of the session, ISO 8601.
        commit: of the tested tree, "" if unknown; "+" at its end if the tree had changes.
        runs: how many.
        time_ns: typical time of them, as the reports of the session have it.
        is_stored: whether they are, or were, in a baseline.
        remark: why they became a baseline, or the verdict of the session; "" for neither.
    """

    session: str
    board: str
    recorded: str
    commit: str
    runs: int
    time_ns: float
    is_stored: bool
    remark: str


@dataclass(frozen=True, slots=True)
class TimeChange:
    """A change of the time between two neighbouring points.

    Attributes:
        before: the last point before it.
        after: the first point after it.
        before_ns: median over the points since the change before.
        after_ns: median over the points up to the next change.
        p_value: by permutation.
    """

    before: HistoryPoint
    after: HistoryPoint
    before_ns: float
    after_ns: float
    p_value: float


@dataclass(frozen=True, slots=True)
class CaseHistory:
    """One subject on one GPU model.

    Attributes:
        model: name of the model's folder.
        subject: the case, or a part of it.
        points: oldest first, at least one.
        changes: in order; none where there are fewer than 8 points.
    """

    model: str
    subject: Subject
    points: tuple[HistoryPoint, ...]
    changes: tuple[TimeChange, ...]

    @property
    def missing_sessions(self) -> int:
        """How many more sessions change points need, 0 where there are enough."""
        return max(0, FEWEST_OBSERVATIONS - len(self.points))


def build_histories(runs: Iterable[HistoryRun]) -> tuple[CaseHistory, ...]:
    """The history of each subject on each model, in order of model and subject.

    A run that is found several times counts once: as a baseline, if it is one.
    """
    known: dict[tuple[str, Subject, str], HistoryRun] = {}
    for run in runs:
        key = (run.model, run.subject, run.run)
        if key not in known or run.source is PointSource.BASELINE:
            known[key] = run
    cases: dict[tuple[str, Subject], dict[tuple[str, str], list[HistoryRun]]] = {}
    for run in known.values():
        cases.setdefault((run.model, run.subject), {}).setdefault((run.session, run.board), []).append(run)
    histories = []
    for (model, subject), sessions in sorted(cases.items(), key=lambda item: item[0]):
        points = [_make_point(own) for own in sessions.values()]
        points.sort(key=lambda point: (point.recorded, point.session, point.board))
        histories.append(CaseHistory(model, subject, tuple(points), _find_changes(points)))
    return tuple(histories)


def _make_point(runs: Sequence[HistoryRun]) -> HistoryPoint:
    first = min(runs, key=lambda run: run.run)
    stored = [run for run in runs if run.source is PointSource.BASELINE]
    remarks = [run.remark for run in (*stored, *runs) if run.remark]
    return HistoryPoint(
        session=first.session,
        board=first.board,
        recorded=first.recorded,
        commit=first.commit,
        runs=len(runs),
        time_ns=_typical_ns(runs),
        is_stored=bool(stored),
        remark=remarks[0] if remarks else "",
    )


def _typical_ns(runs: Sequence[HistoryRun]) -> float:
    """The time of the session, as `typical_ns` of judge/location.py has it."""
    times = [run.time_ns for run in runs if run.has_one_level] or [run.time_ns for run in runs]
    # Times of 0 ns, such as copies that do not occur, have no logarithm.
    return statistics.geometric_mean(times) if min(times) > 0 else statistics.median_high(times)


def _find_changes(points: Sequence[HistoryPoint]) -> tuple[TimeChange, ...]:
    """The change points of the log times; a time of 0 has none, and is left out."""
    usable = [point for point in points if point.time_ns > 0]
    found = find_change_points(np.log([point.time_ns for point in usable]))
    borders = [0, *(one.index for one in found), len(usable)]
    levels = [
        math.exp(statistics.median(math.log(point.time_ns) for point in usable[start:end]))
        for start, end in itertools.pairwise(borders)
        if end > start
    ]
    return tuple(
        TimeChange(usable[one.index - 1], usable[one.index], levels[number], levels[number + 1], one.p_value)
        for number, one in enumerate(found)
    )
