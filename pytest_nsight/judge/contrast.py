"""The difference between the new and the stored runs of one subject, its error, and its t distribution."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from scipy import special

from pytest_nsight.judge.contexts import measure_context_shift
from pytest_nsight.judge.location import Location
from pytest_nsight.judge.noise import Component, Noise, Place, shares
from pytest_nsight.model.comparison import CanaryChange

_Key = TypeVar("_Key", bound=Hashable)

CONFIDENCE_TAIL = 0.05
"""Each tail of the 90 % interval: that of two one-sided tests at 5 % (Schuirmann 1987)."""


@dataclass(frozen=True, slots=True)
class Shift:
    """What the canaries did between the sessions that are compared, of log time.

    Attributes:
        log_change: their weighted mean, taken off the difference.
        baseline_level: what was taken off the mean of the stored runs.
        error_variance: of that mean.
        scatter_variance: of one canary's own change around the common one, sampling taken off: how far a case
            must be expected to lie from it.
        scatter_df: degrees of freedom of `scatter_variance`.
        canaries: the change of each canary.
    """

    log_change: float
    baseline_level: float
    error_variance: float
    scatter_variance: float
    scatter_df: float
    canaries: tuple[CanaryChange, ...]


@dataclass(frozen=True, slots=True)
class Contrast:
    """A difference of log times and how sure it is.

    Attributes:
        baseline_log_ns: mean location of the stored runs, as measured.
        difference: mean location of the new runs less that of the stored runs, less the canaries' shift.
        median_difference: the same for medians; in pairs the median of the differences.
        level_variance: what sessions and boards add to the variance of the difference; no fresh run of this
            session lowers it.
        level_df: degrees of freedom of `level_variance`.
        noise: the variances of the levels.
        compared: the stored runs that were compared, corrected by the canaries' shift.
        new: the new runs, likewise.
        shift: of the canaries, None where there are too few of them or all runs are of the same sessions.
        material: the smallest material difference.
        floor_ns: the smallest change in ns that may count.
        context_shift: share of the runs whose context the others lack.
        is_paired: whether each further new run comes with a further run of the baseline.
        in_pairs: whether the run variance is that within pairs.
    """

    baseline_log_ns: float
    difference: float
    median_difference: float
    level_variance: float
    level_df: float
    noise: Noise
    compared: tuple[Location, ...]
    new: tuple[Location, ...]
    shift: Shift | None = None
    material: float = math.inf
    floor_ns: float = math.nan
    context_shift: float = 0.0
    is_paired: bool = False
    in_pairs: bool = False

    @property
    def baseline_runs(self) -> int:
        """Number of stored runs."""
        return len(self.compared)

    @property
    def new_runs(self) -> int:
        """Number of new runs."""
        return len(self.new)

    @property
    def run_variance(self) -> float:
        """Variance of one run."""
        return self.noise.run.variance

    @property
    def run_df(self) -> float:
        """Degrees of freedom of `run_variance`."""
        return self.noise.run.degrees_of_freedom

    def variance_with(self, new_runs: int) -> float:
        """The variance of the difference if there were this many new runs."""
        return self._run_part(new_runs) + self.level_variance + self._context_part(new_runs)

    def variance_to_come(self, new_runs: int) -> float:
        """The variance of the change of the difference until there are this many new runs."""
        return self._run_part(self.new_runs) - self._run_part(new_runs)

    def _run_part(self, new_runs: int) -> float:
        more = new_runs - self.new_runs if self.is_paired else 0
        return self.run_variance * (1 / (self.baseline_runs + more) + 1 / new_runs)

    def _context_part(self, new_runs: int) -> float:
        shift = self.context_shift
        if new_runs > self.new_runs and not self.is_paired and max(one.cases for one in self.new) > 1:
            # Only suspects get further runs: processes that measure few cases, not the suite.
            shift = 1 - (1 - shift) * self.new_runs / new_runs
        return self.noise.context.variance * shift**2

    @property
    def standard_error(self) -> float:
        """Standard error of the difference."""
        return math.sqrt(self.variance_with(self.new_runs))

    @property
    def degrees_of_freedom(self) -> float:
        """Degrees of freedom of the standard error (Satterthwaite 1946)."""
        return self.degrees_with(self.new_runs)

    def degrees_with(self, new_runs: int) -> float:
        """The degrees of freedom if there were this many new runs."""
        run_part = self._run_part(new_runs)
        # A pair adds two runs, and takes one degree of freedom for what they share.
        run_df = self.run_df + (new_runs - self.new_runs) * (2 if self.is_paired and not self.in_pairs else 1)
        level_part, level_df = self.level_variance, self.level_df
        if context_part := self._context_part(new_runs):
            # As among levels: the tail of a sum is that of its heaviest part.
            level_part += context_part
            level_df = min(level_df, self.noise.context.degrees_of_freedom)
        return pool_degrees((run_part, run_df), (level_part, level_df))

    @property
    def now_log_ns(self) -> float:
        """Mean location of the new runs, as measured."""
        return self.baseline_log_ns + self.difference + (self.shift.log_change if self.shift is not None else 0.0)

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
    """P(t > statistic): what `scipy.stats.t.sf` gives, at a hundredth of its cost."""
    return float(special.stdtr(degrees_of_freedom, -statistic))


def upper_quantile(tail: float, degrees_of_freedom: float) -> float:
    """The t that is exceeded with probability `tail`."""
    return -float(special.stdtrit(degrees_of_freedom, tail))


def pool_degrees(*parts: tuple[float, float]) -> float:
    """Satterthwaite's degrees of freedom of a sum of (variance, degrees of freedom)."""
    total = sum(variance for variance, _ in parts)
    # Relative parts: the squares of tiny variances would vanish.
    return 1 / sum((variance / total) ** 2 / df for variance, df in parts if variance > 0)


def contrast(
    baseline: Sequence[Location],
    new: Sequence[Location],
    noise: Noise,
    shift: Shift | None = None,
    *,
    in_pairs: bool = False,
) -> Contrast:
    """Compares the mean locations of the new and of the stored runs.

    A session or a board weighs with the square of the difference between its shares of stored and new runs: what
    both share cancels, so runs of one session are compared by the run variance alone, and then, with a
    prior of no weight, the test is `scipy.stats.ttest_ind(new, baseline, equal_var=True)`. In pairs it is
    `scipy.stats.ttest_rel(new, baseline)`.

    Args:
        baseline: stored runs, at least one, corrected by the shift if there is one.
        new: new runs, at least one, likewise.
        noise: variances of the levels.
        shift: of the canaries, that the locations were corrected by.
        in_pairs: whether these are the two runs of each pair, in the same order, and the run variance is that
            within pairs.
    """
    levels = _expected_levels(baseline, new, noise)
    if shift is not None:
        levels = _levels_after(levels, shift)
    before = [location.log_ns for location in baseline]
    now = [location.log_ns for location in new]
    return Contrast(
        baseline_log_ns=math.fsum(before) / len(before) + (shift.baseline_level if shift is not None else 0.0),
        difference=math.fsum(now) / len(now) - math.fsum(before) / len(before),
        median_difference=_median_difference(before, now, in_pairs=in_pairs),
        level_variance=levels.variance,
        level_df=levels.degrees_of_freedom,
        noise=noise,
        compared=tuple(baseline),
        new=tuple(new),
        shift=shift,
        context_shift=measure_context_shift(baseline, new),
        in_pairs=in_pairs,
    )


def _median_difference(before: Sequence[float], now: Sequence[float], *, in_pairs: bool) -> float:
    if in_pairs:
        return statistics.median(after - one for one, after in zip(before, now, strict=True))
    return statistics.median(now) - statistics.median(before)


def _expected_levels(baseline: Sequence[Location], new: Sequence[Location], noise: Noise) -> Component:
    """What sessions and boards add to the variance of the difference, by the stored runs.

    Boards whose groups are known differ as boards of one group do, and the groups differ as boards do.
    """
    old, now = shares(baseline), shares(new)
    sessions = _imbalance(old, now)
    boards = _imbalance(_sum_by(old, {p: p[0] for p in old}), _sum_by(now, {p: p[0] for p in now}))
    session_part = sessions * noise.session.variance
    parts = [(boards * noise.board.variance, noise.board.degrees_of_freedom)]
    if all(location.board_group for location in (*baseline, *new)):
        groups = {location.place: location.board_group for location in (*baseline, *new)}
        between = _imbalance(_sum_by(old, groups), _sum_by(now, groups))
        parts = [
            (boards * noise.board_group.variance, noise.board_group.degrees_of_freedom),
            (between * noise.board.variance, noise.board.degrees_of_freedom),
        ]
    board_part = sum(part for part, _ in parts)
    if board_part == 0:
        return Component(session_part, noise.session.degrees_of_freedom)
    # Satterthwaite's degrees would be more, but the tail of a sum is that of its heaviest part.
    return Component(session_part + board_part, min(df for part, df in parts if part > 0))


def _levels_after(expected: Component, shift: Shift) -> Component:
    """The variance of the levels after the correction by the shift.

    The scatter of the canaries over this very step counts where it exceeds what the stored runs led to expect. It
    never lowers the variance: a case may move in a way that no canary shares.
    """
    own = expected
    if shift.scatter_variance > expected.variance:
        own = Component(shift.scatter_variance, shift.scatter_df)
    variance = own.variance + shift.error_variance
    df = pool_degrees((own.variance, own.degrees_of_freedom), (shift.error_variance, shift.scatter_df))
    return Component(variance, df)


def _sum_by(parts: Mapping[Place, float], keys: Mapping[Place, str]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for place, part in parts.items():
        sums[keys[place]] = sums.get(keys[place], 0.0) + part
    return sums


def _imbalance(before: Mapping[_Key, float], now: Mapping[_Key, float]) -> float:
    """The sum over levels of the squared difference of their shares of stored and new runs."""
    return sum((now.get(key, 0.0) - before.get(key, 0.0)) ** 2 for key in {*before, *now})
