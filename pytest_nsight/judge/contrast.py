"""The difference between the new and the stored runs of one subject, its error, and its t distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from pytest_nsight.judge.location import Location
from pytest_nsight.judge.noise import Noise

CONFIDENCE_TAIL = 0.05
"""Each tail of the 90 % interval: that of two one-sided tests at 5 % (Schuirmann 1987)."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """A difference of log times and how sure it is.

    Attributes:
        baseline_log_ns: mean location of the stored runs.
        difference: mean location of the new runs less that of the stored runs.
        median_difference: the same for medians.
        run_variance: of one run.
        run_df: degrees of freedom of `run_variance`.
        level_variance: what sessions and boards add to the variance of the difference; no fresh run of this
            session lowers it.
        level_df: degrees of freedom of `level_variance`.
        baseline_runs: number of stored runs.
        new_runs: number of new runs.
    """

    baseline_log_ns: float
    difference: float
    median_difference: float
    run_variance: float
    run_df: float
    level_variance: float
    level_df: float
    baseline_runs: int
    new_runs: int

    def variance_with(self, new_runs: int) -> float:
        """Return the variance of the difference if there were this many new runs."""
        return self.run_variance * (1 / self.baseline_runs + 1 / new_runs) + self.level_variance

    @property
    def standard_error(self) -> float:
        """Standard error of the difference."""
        return math.sqrt(self.variance_with(self.new_runs))

    @property
    def degrees_of_freedom(self) -> float:
        """Degrees of freedom of the standard error (Satterthwaite 1946)."""
        return self.degrees_with(self.new_runs)

    def degrees_with(self, new_runs: int) -> float:
        """Return the degrees of freedom if there were this many new runs."""
        run_part = self.run_variance * (1 / self.baseline_runs + 1 / new_runs)
        run_df = self.run_df + new_runs - self.new_runs
        return pool_degrees((run_part, run_df), (self.level_variance, self.level_df))

    @property
    def p_slower(self) -> float:
        """One-sided p-value of "not slower"."""
        return upper_tail(self.difference / self.standard_error, self.degrees_of_freedom)

    @property
    def p_faster(self) -> float:
        """One-sided p-value of "not faster"."""
        return upper_tail(-self.difference / self.standard_error, self.degrees_of_freedom)

    @property
    def interval(self) -> tuple[float, float]:
        """90 % confidence interval of the difference."""
        half = upper_quantile(CONFIDENCE_TAIL, self.degrees_of_freedom) * self.standard_error
        return self.difference - half, self.difference + half


def upper_tail(statistic: float, degrees_of_freedom: float) -> float:
    """Return P(t > statistic): what `scipy.stats.t.sf` gives, at a hundredth of its cost."""
    return float(special.stdtr(degrees_of_freedom, -statistic))


def upper_quantile(tail: float, degrees_of_freedom: float) -> float:
    """Return the t that is exceeded with probability `tail`."""
    return -float(special.stdtrit(degrees_of_freedom, tail))


def pool_degrees(*parts: tuple[float, float]) -> float:
    """Return Satterthwaite's degrees of freedom of a sum of (variance, degrees of freedom)."""
    total = sum(variance for variance, _ in parts)
    # Relative parts: the squares of tiny variances would vanish.
    return 1 / sum((variance / total) ** 2 / df for variance, df in parts if variance > 0)


def contrast(baseline: Sequence[Location], new: Sequence[Location], noise: Noise) -> Contrast:
    """Compare the mean locations of the new and of the stored runs.

    A session or a board weighs with the square of the difference between its shares of the two sides: what
    both sides share cancels, so runs of one session are compared by the run variance alone, and then, with a
    prior of no weight, the test is `scipy.stats.ttest_ind(new, baseline, equal_var=True)`.

    Args:
        baseline: stored runs, at least one.
        new: new runs, at least one.
        noise: variances of the three levels.
    """
    session_weight = _imbalance([(r.board, r.session) for r in baseline], [(r.board, r.session) for r in new])
    board_weight = _imbalance([r.board for r in baseline], [r.board for r in new])
    session_part = session_weight * noise.session.variance
    board_part = board_weight * noise.board.variance
    level_df = noise.session.degrees_of_freedom
    if session_part + board_part > 0:
        level_df = pool_degrees(
            (session_part, noise.session.degrees_of_freedom), (board_part, noise.board.degrees_of_freedom)
        )
    before = [location.log_ns for location in baseline]
    now = [location.log_ns for location in new]
    return Contrast(
        baseline_log_ns=math.fsum(before) / len(before),
        difference=math.fsum(now) / len(now) - math.fsum(before) / len(before),
        median_difference=float(np.median(now) - np.median(before)),
        run_variance=noise.run.variance,
        run_df=noise.run.degrees_of_freedom,
        level_variance=session_part + board_part,
        level_df=level_df,
        baseline_runs=len(before),
        new_runs=len(now),
    )


def _imbalance(before: Sequence[object], now: Sequence[object]) -> float:
    """Return the sum over levels of the squared difference of their shares of the two sides."""
    return sum((now.count(key) / len(now) - before.count(key) / len(before)) ** 2 for key in {*before, *now})
