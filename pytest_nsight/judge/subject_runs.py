"""What the judge is given, and when it asks for more.

MERGED: Which of the stored runs the new ones are compared with.

To save is to accept: the newest session says what the code is meant to launch and how long that takes. Older
sessions add what they know of the noise, as long as they are of the same structure and on the same level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from pytest_nsight.judge.location import Location, exp, locate_all
from pytest_nsight.judge.noise import expected_spread
from pytest_nsight.judge.structure import count_shapes, is_steady
from pytest_nsight.model.roofline import Limits
from pytest_nsight.model.values import InterleavedPairs, Policy, RunSummary, Subject

LOOKS = (1, 3, 5, 9)
"""Numbers of new runs, cumulated, after which `suspects` is asked; only suspects get the next runs."""

MINIMUM_BASELINE_RUNS = 3
"""With fewer stored runs the gate knows too little of a case's own noise to fail or clear it on time."""

FIRST_PAIRS = MINIMUM_BASELINE_RUNS
"""Runs of each of two trees before the first look."""

MINIMUM_NEW_RUNS = 5
"""A regression must have been seen in this many fresh processes; the controller makes 9."""


@dataclass(frozen=True, slots=True)
class SubjectRuns:
    """Everything known of one subject.

    Attributes:
        subject: what was measured.
        policy: what its case demands; `faster_than` holds the id of the partner case.
        baseline: stored runs, of any number of sessions and boards.
        new: runs of this session.
        incomparable: why the stored runs cannot be compared with the new ones, "" if they can.
        pairs: rounds interleaved with the case that it claims to beat, one race per run at most.
        limits: board -> what it can do, for claims on the share of it.
        against: the revision whose runs of this session stand in place of stored ones, "" if none do. Both sides
            then get more runs together.
        absent: why that revision has no run of the subject, "" if it has.
        board_groups: board -> the group of boards that time alike, as the canaries show it.
    """

    subject: Subject
    policy: Policy
    baseline: tuple[RunSummary, ...]
    new: tuple[RunSummary, ...]
    incomparable: str = ""
    limits: Mapping[str, Limits] = field(default_factory=dict)
    pairs: tuple[InterleavedPairs, ...] = ()
    against: str = ""
    absent: str = ""
    board_groups: Mapping[str, str] = field(default_factory=dict)


_LEVEL_SIGMAS = 3.0


@dataclass(frozen=True, slots=True)
class Reference:
    """The stored runs that count.

    Attributes:
        runs: all of them, oldest session first.
        locations: of those that have one and are steady; what the noise is estimated from.
        compared: the locations that the new runs are compared with: those on the board of the new runs where
            there are at least 3, else those on boards of its kind where there are at least 3, else all.
        unsteady: locations that were set aside.
    """

    runs: tuple[RunSummary, ...]
    locations: tuple[Location, ...]
    compared: tuple[Location, ...]
    unsteady: tuple[Location, ...] = ()


def choose_reference(
    baseline: Sequence[RunSummary],
    new: Sequence[RunSummary],
    metric: str,
    band: float,
    kinds: Mapping[str, str] = MappingProxyType({}),
) -> Reference:
    """Choose the stored runs that count.

    Left out are sessions that launch other shapes than the newest session, and sessions whose mean differs
    from the newest one's by more than the band and by more than three standard deviations expected of two
    sessions on two boards: their level was superseded when a later one was saved.

    Args:
        baseline: stored runs in any order.
        new: new runs; their board is preferred.
        metric: the gated duration.
        band: relative change that the user calls material.
        kinds: board -> its kind.
    """
    sessions = _order_sessions(baseline)
    if not sessions:
        return Reference((), (), ())
    sessions = [session for session in sessions if _launches_alike(session, sessions[-1])]
    found = [locate_all(session, metric, kinds)[0] for session in sessions]
    located = [[item for item in session if item.is_steady] for session in found]
    unsteady = tuple(item for session in found for item in session if not item.is_steady)
    if located[-1]:
        level = _mean(located[-1])
        newest = located[-1][0]
        spread = expected_spread(exp(level), newest.board)
        sizes = [(1 / len(locations) + 1 / len(located[-1])) if locations else 0.0 for locations in located]
        levels_variance = 2 * (spread.session**2 + spread.board**2)
        keeps = [
            not locations
            or abs(_mean(locations) - level)
            <= max(math.log1p(band), _LEVEL_SIGMAS * math.sqrt(levels_variance + size * spread.run**2))
            for locations, size in zip(located, sizes, strict=True)
        ]
        sessions = [session for session, keep in zip(sessions, keeps, strict=True) if keep]
        located = [locations for locations, keep in zip(located, keeps, strict=True) if keep]
    locations = tuple(location for session in located for location in session)
    return Reference(
        runs=tuple(run for session in sessions for run in session),
        locations=locations,
        compared=_choose_compared(locations, new, kinds),
        unsteady=unsteady,
    )


def _choose_compared(
    locations: tuple[Location, ...], new: Sequence[RunSummary], kinds: Mapping[str, str]
) -> tuple[Location, ...]:
    boards = {run.board for run in new}
    own_kinds = {kinds.get(board, "") for board in boards}
    same_board = tuple(location for location in locations if {location.board} == boards)
    kin = tuple(location for location in locations if location.kind and {location.kind} == own_kinds)
    for nearest in (same_board, kin):
        if len(nearest) >= MINIMUM_BASELINE_RUNS:
            return nearest
    return locations


def _order_sessions(runs: Sequence[RunSummary]) -> list[list[RunSummary]]:
    groups: dict[tuple[str, str], list[RunSummary]] = {}
    for run in sorted(runs, key=lambda run: (run.recorded, run.run)):
        groups.setdefault((run.session, run.board), []).append(run)
    return sorted(groups.values(), key=lambda group: (group[-1].recorded, group[-1].session, group[-1].board))


def _launches_alike(session: list[RunSummary], newest: list[RunSummary]) -> bool:
    if not is_steady(newest) or session is newest:
        return True
    return all(count_shapes(run) == count_shapes(newest[0]) for run in session)


def _mean(locations: Sequence[Location]) -> float:
    return float(np.mean([location.log_ns for location in locations]))
