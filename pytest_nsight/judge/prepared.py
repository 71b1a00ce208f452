"""One subject, with all that can be computed without the other subjects.

To save is to accept: the newest stored session says what the code is meant to launch and how long that takes. Older
sessions add what they show of the noise, as long as they have the same structure and lie on the same level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_nsight.judge.board_groups import keep_same_software
from pytest_nsight.judge.drift_and_modes import is_repeated
from pytest_nsight.judge.environment_checks import explain_environment, is_disturbed, leave_out_disturbed
from pytest_nsight.judge.location import Location, locate_all
from pytest_nsight.judge.noise import expected_spread
from pytest_nsight.judge.round_statistics import exp
from pytest_nsight.judge.structure import StructureFinding, compare_structure, count_shapes, launch_the_same
from pytest_nsight.judge.subject_runs import FIRST_PAIRS, MINIMUM_BASELINE_RUNS, SubjectRuns
from pytest_nsight.model.values import RunSummary, is_gpu

_DEVICE_TIMES = ("kernel", "copy", "busy")
"""Metrics to gate instead of one that a case has no time of."""

_LEVEL_SIGMAS = 3.0


@dataclass(frozen=True, slots=True)
class PreparedSubject:
    """What the structure, the environment checks and the located runs of one subject say.

    Attributes:
        given: all its runs.
        baseline: the stored runs that count, oldest session first.
        stored: locations of those that have one level; the noise is estimated from them.
        compared: the stored locations that the new runs are compared with: those on the board of the new runs
            where there are at least 3, else those on boards of its group where there are at least 3, else all.
        new: locations of the new runs that have one level.
        stored_aside: stored locations that are set aside, because the run drifts, its clock changed, or other
            programs had the CPU.
        new_aside: new locations that are set aside, likewise.
        disturbed_aside: how many of those were set aside for other programs.
        structure: how the launches changed.
        environment: why times cannot be compared, "" if they can.
        unmeasured: why some run has no location, "" if all have.
    """

    given: SubjectRuns
    baseline: tuple[RunSummary, ...]
    stored: tuple[Location, ...]
    compared: tuple[Location, ...]
    new: tuple[Location, ...]
    stored_aside: tuple[Location, ...]
    new_aside: tuple[Location, ...]
    disturbed_aside: int
    structure: StructureFinding
    environment: str
    unmeasured: str

    @property
    def has_times(self) -> bool:
        """Whether there are stored and new times that may be compared."""
        return bool(self.compared and self.new and self.given.is_comparable)

    @property
    def is_sufficient(self) -> bool:
        """Whether enough runs are stored, or made of the other tree, to judge a time."""
        return len(self.compared) >= MINIMUM_BASELINE_RUNS or self._has_two_sound_pairs

    @property
    def _has_two_sound_pairs(self) -> bool:
        """Whether there are two runs of each of two trees, and all of them count."""
        sides = (self.given.baseline, self.given.new, self.compared, self.new)
        is_sound = not any(is_disturbed(run) for run in (*self.given.baseline, *self.given.new))
        return bool(self.given.against) and {len(side) for side in sides} == {FIRST_PAIRS} and is_sound

    @property
    def has_whole_pairs(self) -> bool:
        """Whether every run of one of two trees has a counterpart, measured beside it on a GPU, and all count.

        What both runs of a pair share is known of GPUs; on a CPU they are two samples.
        """
        sides = (self.given.baseline, self.given.new, self.stored, self.compared, self.new)
        boards = {location.board for location in (*self.compared, *self.new)}
        is_whole = len({len(side) for side in sides}) == len(boards) == 1
        return bool(self.given.against) and is_whole and all(map(is_gpu, boards))

    @property
    def is_repeated(self) -> bool:
        """Whether all stored runs, or all new ones, have exactly equal rounds, which no measurement gives."""
        groups = (self.compared, self.new)
        return any(is_repeated([location.durations_ns for location in group]) for group in groups)

    @property
    def is_judgeable(self) -> bool:
        """Whether the times allow a verdict other than INCONCLUSIVE."""
        return self.is_sufficient and not self.is_repeated

    @property
    def has_only_disturbed_runs(self) -> bool:
        """Whether other programs had the CPU in all new runs."""
        return bool(self.given.new) and all(is_disturbed(run) for run in self.given.new)

    @property
    def loses_structure(self) -> bool:
        """Whether the launches changed in a way that fails by itself."""
        return bool(self.structure.changes) and not self.structure.retuned and self.given.is_comparable

    @property
    def keeps_structure(self) -> bool:
        """Whether every round of every run launched the same, stored and new."""
        is_known = bool(self.given.new and self.given.baseline) and self.given.is_comparable
        return is_known and self.structure.is_unchanged


@dataclass(frozen=True, slots=True)
class _StoredSession:
    """The runs of one stored session on one board, and their locations."""

    runs: Sequence[RunSummary]
    located: Sequence[Location]

    @property
    def usable(self) -> list[Location]:
        return [location for location in self.located if location.has_one_level]


def prepare(given: SubjectRuns, family: Callable[[str], str]) -> PreparedSubject:
    """Prepares one subject; no argument of the right type makes this raise.

    Args:
        given: its runs.
        family: maps a normalised kernel name to the name that all its tiles and variants share.
    """
    metric, groups = given.policy.metric, given.board_groups
    # Further pairs replace a revision's disturbed runs; nothing replaces those of a baseline.
    fewest = 1 if given.against else MINIMUM_BASELINE_RUNS
    quiet = replace(
        given, baseline=_leave_out_disturbed(given.baseline, fewest), new=leave_out_disturbed(given.new, 1)
    )
    sessions, aside = _choose_sessions(quiet)
    baseline = tuple(run for session in sessions for run in session.runs)
    stored = tuple(location for session in sessions for location in session.usable)
    found = locate_all(quiet.new, metric, groups)
    disturbed_before = locate_all(_left_out(given.baseline, quiet.baseline), metric, groups).locations
    disturbed_now = locate_all(_left_out(given.new, quiet.new), metric, groups).locations
    unmeasured = found.why_not
    if not stored and not unmeasured:
        unmeasured = locate_all(baseline, metric).why_not
    both = bool(baseline and given.new)
    return PreparedSubject(
        given=given,
        baseline=baseline,
        stored=stored,
        compared=_choose_compared(stored, given),
        new=tuple(item for item in found.locations if item.has_one_level),
        stored_aside=(*aside, *disturbed_before),
        new_aside=(*(item for item in found.locations if not item.has_one_level), *disturbed_now),
        disturbed_aside=len(disturbed_before) + len(disturbed_now),
        structure=compare_structure(baseline, given.new, family) if both else StructureFinding(),
        environment=explain_environment(baseline, quiet.new, given.against) if both else "",
        unmeasured=unmeasured,
    )


def find_other_metric(runs: Sequence[RunSummary], metric: str) -> str:
    """Another metric of the device that can be judged where this one cannot, "" if there is none or no need.

    Args:
        runs: of one subject.
        metric: a duration that may be 0 ns, as the kernel time of what only copies.
    """
    if not locate_all(runs, metric).unlocated:
        return ""
    return next((one for one in _DEVICE_TIMES if not locate_all(runs, one).unlocated), "")


def _leave_out_disturbed(baseline: Sequence[RunSummary], fewest: int) -> tuple[RunSummary, ...]:
    """The undisturbed stored runs, or all if too few; if the newest session has only disturbed runs, they stay."""
    sessions = _order_sessions(baseline)
    if not sessions:
        return ()
    *older, newest = sessions
    quiet = [run for session in older for run in session if not is_disturbed(run)]
    quiet += leave_out_disturbed(newest, 1)
    return tuple(quiet) if len(quiet) >= fewest else tuple(baseline)


def _left_out(runs: Sequence[RunSummary], kept: Sequence[RunSummary]) -> list[RunSummary]:
    ids = {id(run) for run in kept}
    return [run for run in runs if id(run) not in ids]


def prepare_canary(given: SubjectRuns, family: Callable[[str], str]) -> PreparedSubject | None:
    """Prepares a canary; None if it is not the same work as before."""
    if not given.is_comparable or not given.new:
        return None
    prepared = prepare(keep_same_software(given), family)
    is_same = prepared.has_times and not prepared.structure.changes and not prepared.is_repeated
    return prepared if is_same else None


def _choose_sessions(given: SubjectRuns) -> tuple[list[_StoredSession], tuple[Location, ...]]:
    """The stored sessions that count, oldest first, and the locations that are set aside.

    Left out are sessions that launch other shapes than the newest session, and sessions whose mean differs from the
    newest one's by more than the band and by more than three standard deviations expected of two sessions on two
    boards: their level was superseded when a later one was saved.
    """
    ordered = _order_sessions(given.baseline)
    sessions = [
        _StoredSession(runs, locate_all(runs, given.policy.metric, given.board_groups).locations)
        for runs in ordered
        if _launches_as(runs, ordered[-1])
    ]
    aside = tuple(item for session in sessions for item in session.located if not item.has_one_level)
    if not sessions or not sessions[-1].usable:
        return sessions, aside
    newest, band = sessions[-1].usable, given.policy.band if given.policy.band >= 0 else 0.0
    level = _mean(newest)
    spread = expected_spread(exp(level), newest[0].board)

    def is_on_level(own: Sequence[Location]) -> bool:
        runs_part = (1 / len(own) + 1 / len(newest)) * spread.run**2
        expected = math.sqrt(2 * (spread.session**2 + spread.board**2) + runs_part)
        return abs(_mean(own) - level) <= max(math.log1p(band), _LEVEL_SIGMAS * expected)

    return [one for one in sessions if not one.usable or is_on_level(one.usable)], aside


def _choose_compared(stored: tuple[Location, ...], given: SubjectRuns) -> tuple[Location, ...]:
    boards = {run.board for run in given.new}
    groups = {given.board_groups.get(board, "") for board in boards}
    same_board = tuple(item for item in stored if {item.board} == boards)
    same_group = tuple(item for item in stored if item.board_group and {item.board_group} == groups)
    for nearest in (same_board, same_group):
        if len(nearest) >= MINIMUM_BASELINE_RUNS:
            return nearest
    return stored


def _order_sessions(runs: Sequence[RunSummary]) -> list[list[RunSummary]]:
    groups: dict[tuple[str, str], list[RunSummary]] = {}
    for run in sorted(runs, key=lambda run: (run.recorded, run.run)):
        groups.setdefault((run.session, run.board), []).append(run)
    return sorted(groups.values(), key=lambda group: (group[-1].recorded, group[-1].session, group[-1].board))


def _launches_as(session: Sequence[RunSummary], newest: Sequence[RunSummary]) -> bool:
    if not launch_the_same(newest) or session is newest:
        return True
    return all(count_shapes(run) == count_shapes(newest[0]) for run in session)


def _mean(locations: Sequence[Location]) -> float:
    return float(np.mean([location.log_ns for location in locations]))
