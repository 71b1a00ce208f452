"""The numbers behind a verdict on time, so that a reader of the JSON report can work it out again. Inert values."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NoiseLevel:
    """One source of noise, as used.

    Attributes:
        name: "run", "session", "board group" (boards that time alike), "board" (boards of different or
            unknown groups) or "context" (processes that measure different cases).
        sd: standard deviation of log time.
        degrees_of_freedom: how well it is known.
    """

    name: str
    sd: float
    degrees_of_freedom: float


@dataclass(frozen=True, slots=True)
class Look:
    """The comparison after a number of new runs, worked out again with all that is known of the noise at the end.

    Attributes:
        runs: new runs, those set aside not counted.
        difference: of log time.
        standard_error: of it.
        degrees_of_freedom: of its t distribution.
        may_regress: whether more runs could still have shown a regression.
        may_improve: the same for being faster.
    """

    runs: int
    difference: float
    standard_error: float
    degrees_of_freedom: float
    may_regress: bool
    may_improve: bool


@dataclass(frozen=True, slots=True)
class RunLevel:
    """Where one run lies.

    Attributes:
        is_new: whether it is one of the new runs, not of the baseline.
        run: its id.
        session: id of its session.
        board: it ran on.
        log_ns: midmean of the log times of its rounds, as measured.
        within_error: standard error of that, from the rounds alone.
        drift: log change from the first to the last round, 0.0 if it does not drift.
        mode_gap: log distance of the two modes of its rounds, None if there is one mode.
        mode_share: share of the rounds in the slower mode.
        is_clock_mode: whether the SM clock differs between the modes, None where it was not read with each round.
        is_compared: whether it is one of the runs whose mean is compared; the others show the noise, or were
            set aside.
        cases: number of cases that its process measured, 0 when unknown.
    """

    is_new: bool
    run: str
    session: str
    board: str
    log_ns: float
    within_error: float
    drift: float
    mode_gap: float | None
    mode_share: float | None
    is_clock_mode: bool | None
    is_compared: bool
    cases: int = 0


@dataclass(frozen=True, slots=True)
class CanaryChange:
    """What a canary did between the baseline's sessions and this one.

    Attributes:
        name: of the canary.
        change: difference of its log time.
    """

    name: str
    change: float


@dataclass(frozen=True, slots=True)
class SlowerKernel:
    """A kernel that explains a slowdown.

    Attributes:
        name: of the kernel.
        baseline_ns: its time in a round of the baseline, the median over the runs.
        now_ns: the same now.
    """

    name: str
    baseline_ns: float
    now_ns: float


@dataclass(frozen=True, slots=True)
class Basis:
    """The numbers behind a comparison, as docs/statistics.md names it; differences are of log time.

    Attributes:
        difference: of mean locations, less the canaries' shift (D).
        median_difference: of median locations, likewise; of pairs the median of the differences.
        material: smallest material difference (B).
        margin: difference within which equality is shown (M).
        floor_ns: smallest change in ns that may count (r).
        compared_subjects: number of subjects that p-values were adjusted over.
        prior_scale: of the run variance, learned from the suite (c).
        prior_degrees_of_freedom: of the same (d0).
        levels: the sources of noise.
        level_error: standard error that sessions, boards and the canaries' shift add.
        level_degrees_of_freedom: of it.
        canary_shift: what the canaries did, taken off; None where nothing was.
        canary_error: standard error of it.
        canary_scatter: standard deviation of the canaries around it, sampling taken off.
        canary_degrees_of_freedom: of the scatter.
        canaries: the change of each canary.
        looks: the comparison after each look.
        runs: all runs, stored ones first.
        context_shift: share of the runs whose context the other group lacks; times the deviation of contexts, it is
            the standard error that contexts add.
        in_pairs: whether the runs of two trees were compared pair by pair; the level of runs is then that within
            pairs.
    """

    difference: float
    median_difference: float
    material: float
    margin: float
    floor_ns: float
    compared_subjects: int
    prior_scale: float
    prior_degrees_of_freedom: float
    levels: tuple[NoiseLevel, ...]
    level_error: float
    level_degrees_of_freedom: float
    canary_shift: float | None
    canary_error: float | None
    canary_scatter: float | None
    canary_degrees_of_freedom: float | None
    canaries: tuple[CanaryChange, ...]
    looks: tuple[Look, ...]
    runs: tuple[RunLevel, ...]
    context_shift: float = 0.0
    in_pairs: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every number that led to a verdict on time; times in ns, ratios as new / old.

    Attributes:
        metric: the gated duration.
        baseline_ns: exp of the mean over baseline runs of their locations.
        now_ns: the same over the new runs.
        ratio: now / baseline, less what the canaries did.
        low: lower end of the 90 % confidence interval of the ratio.
        high: upper end.
        p_slower: one-sided p-value of "not slower".
        p_faster: one-sided p-value of "not faster".
        adjusted_p_slower: after Benjamini-Hochberg over all compared subjects; None where nothing was tested: other
            launches, too few runs, or a subject that was cleared.
        adjusted_p_faster: likewise.
        band: the user's band, as a ratio.
        mde: smallest relative slowdown that the last look (9 new runs) finds with probability 0.95.
        standard_error: of the log ratio.
        degrees_of_freedom: of the t distribution used.
        run_sd: standard deviation of a run's location, of log time, as used (shrunken towards the prior).
        baseline_runs: number of baseline runs.
        new_runs: number of new runs.
        against: the revision that stands in place of a stored baseline, "" for none.
        slower_kernels: the kernels that explain the change, worst first.
        basis: the numbers behind these; None only in comparisons that were not made by the gate.
    """

    metric: str
    baseline_ns: float
    now_ns: float
    ratio: float
    low: float
    high: float
    p_slower: float
    p_faster: float
    adjusted_p_slower: float | None
    adjusted_p_faster: float | None
    band: float
    mde: float
    standard_error: float
    degrees_of_freedom: float
    run_sd: float
    baseline_runs: int
    new_runs: int
    slower_kernels: tuple[SlowerKernel, ...] = ()
    against: str = ""
    basis: Basis | None = None

    @property
    def half_width(self) -> float:
        """Half the width of the confidence interval."""
        return (self.high - self.low) / 2

    @property
    def effective_band(self) -> float:
        """The band that judged, as a ratio: the user's, or what time or CPU can carry where that is wider."""
        if self.basis is None or self.band < 0:
            return self.band
        return max(self.band, math.expm1(min(self.basis.material, 700.0)))
