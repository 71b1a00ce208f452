"""The noise of unchanged code: between runs, between sessions, between boards.

The levels are nested, each with a variance of log time: run < session < board < board group; contexts lie across
them (contexts.py). Every variance of a subject is its own estimate drawn towards a prior: the moderated variance of
limma (Smyth 2004, doi 10.2202/1544-6115.1027). The variances of boards are never below their prior.
docs/statistics.md derives each constant.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from pytest_nsight.judge.location import Location
from pytest_nsight.model.values import is_gpu

SHORT_NS = 30_000
"""For shorter kernels, launch effects and the timer dominate the noise."""

SUITE_MINIMUM = 10
"""Least number of subjects for fitting the prior of the run variance to the suite itself."""

CONTEXT_DF = 8.0
LARGEST_PRIOR_DF = 8.0
SESSION_PRIOR_DF = 8.0
BOARD_PRIOR_DF = 4.0
_SMALLEST_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations of log time that are expected before anything is measured.

    Attributes:
        run: of runs within a session.
        session: of sessions on a board.
        board_group: of boards of one group.
        board: of boards of a model whose groups differ or are unknown.
    """

    run: float
    session: float
    board_group: float
    board: float


LONG_KERNELS = Spread(run=0.0010, session=0.0005, board_group=0.0020, board=0.0060)
SHORT_KERNELS = Spread(run=0.0035, session=0.0010, board_group=0.0030, board=0.0060)
CPU = Spread(run=0.03, session=0.05, board_group=0.05, board=0.05)


@dataclass(frozen=True, slots=True)
class Prior:
    """The run variance of a subject as expected before its own runs are known.

    Attributes:
        scale: ratio of the variance to that of the expected spread.
        degrees_of_freedom: number of the subject's own runs that weigh as much as the prior.
    """

    scale: float
    degrees_of_freedom: float


Place = tuple[str, str]
"""Board and session."""

SHIPPED_PRIOR = Prior(scale=1.0, degrees_of_freedom=2.0)


@dataclass(frozen=True, slots=True)
class Component:
    """One variance of log time, and how well it is known."""

    variance: float
    degrees_of_freedom: float


@dataclass(frozen=True, slots=True)
class Noise:
    """The variances of one subject.

    Attributes:
        run: of runs within a session.
        session: of sessions on a board.
        board_group: of boards of one group.
        board: of boards whose groups differ or are unknown.
        context: of processes that measure different sets of cases.
    """

    run: Component
    session: Component
    board_group: Component
    board: Component
    context: Component = Component(0.0, CONTEXT_DF)


def expected_spread(duration_ns: float, board: str) -> Spread:
    """The expected spread of runs of such a duration on such a board.

    A board whose name is no UUID of a GPU is a shared CPU, whose runs vary by percents, not tenths of percents.
    """
    if not is_gpu(board):
        return CPU
    return LONG_KERNELS if duration_ns >= SHORT_NS else SHORT_KERNELS


def pool_within(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The sum of squares around the group means, and its degrees of freedom."""
    squares = 0.0
    for group in groups:
        if len(group) > 1:
            mean = math.fsum(group) / len(group)
            squares += math.fsum((value - mean) ** 2 for value in group)
    return squares, float(sum(len(group) - 1 for group in groups if group))


def pool_pairs(baseline: Sequence[float], new: Sequence[float]) -> tuple[float, float]:
    """The sum of squares that trees and pairs leave, and its degrees of freedom: that of a two-way layout.

    Half the variance of the differences is the variance of one run without what both runs of a pair share.

    Args:
        baseline: log time of one tree's run of each pair, at least one.
        new: of the other tree's, in the same order.
    """
    differences = [after - before for before, after in zip(baseline, new, strict=True)]
    mean = math.fsum(differences) / len(differences)
    return math.fsum((one - mean) ** 2 for one in differences) / 2, float(len(differences) - 1)


def fit_prior(ratios: Sequence[float], degrees: Sequence[float]) -> Prior:
    """Fits a suite's prior to the variances of its subjects by the moments of their logarithms.

    Args:
        ratios: run variance of each subject, divided by the expected one; 0 counts as 1/100 of the median.
        degrees: degrees of freedom of each, above 0.

    Returns:
        The shipped prior for fewer than 10 subjects or where nothing varies; else the fitted one, its degrees
        of freedom at most 8 so that a subject's own runs keep the last word.
    """
    values, dof = np.asarray(ratios, dtype=np.float64), np.asarray(degrees, dtype=np.float64)
    if values.size < SUITE_MINIMUM or not np.median(values) > 0:
        return SHIPPED_PRIOR
    values = np.maximum(values, np.median(values) / 100)
    centred = np.log(values) - special.digamma(dof / 2) + np.log(dof / 2)
    excess = float(centred.var(ddof=1) - special.polygamma(1, dof / 2).mean())
    prior_df = LARGEST_PRIOR_DF
    if excess > float(special.polygamma(1, LARGEST_PRIOR_DF / 2)):
        prior_df = 2 * _invert_trigamma(excess)
    log_scale = centred.mean() + special.digamma(prior_df / 2) - math.log(prior_df / 2)
    return Prior(float(np.exp(log_scale)), prior_df)


def _invert_trigamma(value: float) -> float:
    """Solve trigamma(x) = value by Newton's method on 1/trigamma, which is nearly linear (Smyth 2004)."""
    x = 0.5 + 1 / value
    for _ in range(20):
        trigamma = float(special.polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, x))
        x += step
        if abs(step) < 1e-9 * x:
            break
    return x


def group_by_session(locations: Sequence[Location]) -> list[list[Location]]:
    """The locations session by session; one session on two boards counts as two."""
    groups: dict[tuple[str, str], list[Location]] = {}
    for location in locations:
        groups.setdefault((location.board, location.session), []).append(location)
    return [groups[key] for key in sorted(groups)]


def shares(locations: Sequence[Location]) -> dict[Place, float]:
    """The share of the runs that each session on each board has."""
    counts = Counter(location.place for location in locations)
    return {place: count / len(locations) for place, count in counts.items()}


def pool_runs(baseline: Sequence[Location], new: Sequence[Location], *, in_pairs: bool) -> tuple[float, float]:
    """The sum of squares of a subject's runs around what they share, and its degrees of freedom.

    Args:
        baseline: runs that are compared with.
        new: the others.
        in_pairs: whether these are the two runs of each pair, in the same order; else runs of a session share its
            level.
    """
    if in_pairs:
        return pool_pairs([one.log_ns for one in baseline], [one.log_ns for one in new])
    groups = (*group_by_session(baseline), *group_by_session(new))
    return pool_within([[location.log_ns for location in group] for group in groups])


def estimate_noise(
    baseline: Sequence[Location], new: Sequence[Location], prior: Prior, spread: Spread, *, in_pairs: bool = False
) -> Noise:
    """Estimates the variances of one subject from its runs and the priors.

    Args:
        baseline: stored runs of all boards; the session and the board variance come from them alone, because
            the step from them to the new runs is what is being tested.
        new: new runs.
        prior: of the run variance.
        spread: expected standard deviations.
        in_pairs: whether these are the two runs of each pair, in the same order; the run variance is then that
            within pairs.
    """
    sessions = group_by_session(baseline)
    squares, own_df = pool_runs(baseline, new, in_pairs=in_pairs)
    run_df = prior.degrees_of_freedom + own_df
    pooled = prior.degrees_of_freedom * prior.scale * spread.run**2 + squares
    floor = float(np.mean([location.within_error**2 for location in (*baseline, *new)]))
    run_variance = max(pooled / run_df if run_df > 0 else 0.0, floor, _SMALLEST_VARIANCE)

    by_board: dict[str, list[tuple[float, float]]] = {}
    group_of: dict[str, str] = {}
    for session in sessions:
        mean = float(np.mean([location.log_ns for location in session]))
        by_board.setdefault(session[0].board, []).append((mean, run_variance / len(session)))
        group_of[session[0].board] = session[0].board_group
    session_level = _draw_to_prior(list(by_board.values()), spread.session**2, SESSION_PRIOR_DF)
    boards = {board: _pool_sessions(means, session_level.variance) for board, means in by_board.items()}
    by_group: dict[str, list[tuple[float, float]]] = {}
    for board, group in group_of.items():
        if group:
            by_group.setdefault(group, []).append(boards[board])
    return Noise(
        run=Component(run_variance, max(run_df, 1.0)),
        session=session_level,
        board_group=_widen_prior(list(by_group.values()), spread.board_group**2),
        board=_widen_prior([list(boards.values())], spread.board**2),
    )


def _pool_sessions(means: Sequence[tuple[float, float]], session_variance: float) -> tuple[float, float]:
    """The mean over the sessions of a board, and its sampling variance."""
    return (
        float(np.mean([mean for mean, _ in means])),
        sum(variance + session_variance for _, variance in means) / len(means) ** 2,
    )


def _draw_to_prior(
    groups: Sequence[Sequence[tuple[float, float]]], prior_variance: float, prior_df: float
) -> Component:
    """Draws the variance among (mean, its sampling variance), group by group, towards its prior."""
    squares, own_df = pool_within([[mean for mean, _ in group] for group in groups])
    if own_df == 0:
        return Component(prior_variance, prior_df)
    sampling = float(np.mean([variance for group in groups if len(group) > 1 for _, variance in group]))
    own = max(0.0, squares / own_df - sampling)
    total = prior_df + own_df
    return Component((prior_df * prior_variance + own_df * own) / total, total)


def _widen_prior(groups: Sequence[Sequence[tuple[float, float]]], prior_variance: float) -> Component:
    """The variance among boards: the stored ones may widen what is expected, and never narrow it.

    A case that times alike on four boards can be 2 % slower on the fifth (docs/statistics.md, section 3).
    """
    drawn = _draw_to_prior(groups, prior_variance, BOARD_PRIOR_DF)
    return Component(max(drawn.variance, prior_variance), BOARD_PRIOR_DF)
