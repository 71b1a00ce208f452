"""The rules of other tools, on the rounds and runs that the gate sees; the tests are scipy's.

Each rule says whether it would call the new side slower. Where a tool compares with one stored run, it gets the
last stored and the first new one. The sources and defaults are those of the tools' documentation; a rule that
differs says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import stats

from pytest_nsight.calibrate.resampling import Resample
from pytest_nsight.judge.subject_runs import MINIMUM_NEW_RUNS
from pytest_nsight.model.values import Policy, Subject

Floats = npt.NDArray[np.float64]
Rounds = tuple[int, ...]
"""Durations of one run's rounds in ns."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to find a slowdown.

    Attributes:
        name: as the tables have it.
        stored: stored runs that it looks at.
        new: new runs that it looks at.
        fires: whether it calls the new side slower.
    """

    name: str
    stored: int
    new: int
    fires: Callable[[Sequence[Rounds], Sequence[Rounds]], bool]


@dataclass(frozen=True, slots=True)
class MeanTest:
    """A t test of two means.

    Attributes:
        p_value: two-sided.
        low: lower end of the 95 % interval of the relative change of the mean.
        is_slower: whether the new mean is larger.
    """

    p_value: float
    low: float
    is_slower: bool


# The rules ask the same of one pair of runs in turn.
@lru_cache(maxsize=256)
def welch(before: Rounds, now: Rounds) -> MeanTest:
    """Welch's test on rounds, `scipy.stats.ttest_ind` with unequal variances."""
    return _compare_means(np.asarray(before, dtype=np.float64), np.asarray(now, dtype=np.float64), equal_var=False)


def _compare_means(before: Floats, now: Floats, *, equal_var: bool) -> MeanTest:
    difference = float(now.mean() - before.mean())
    if not np.ptp(before) and not np.ptp(now):
        return MeanTest(1.0 if difference == 0 else 0.0, difference / float(before.mean()), difference > 0)
    with warnings.catch_warnings():
        # Rounds that hardly differ lose digits, and no rule hangs on these.
        warnings.simplefilter("ignore", RuntimeWarning)
        found = stats.ttest_ind(now, before, equal_var=equal_var)
        low = found.confidence_interval(0.95).low
    return MeanTest(float(found.pvalue), float(low) / float(before.mean()), difference > 0)


@lru_cache(maxsize=256)
def mann_whitney(before: Rounds, now: Rounds) -> tuple[float, bool]:
    """`scipy.stats.mannwhitneyu` in its normal form, which corrects for ties.

    Returns:
        The two-sided p-value, and whether the new side ranks higher.
    """
    if len({*before, *now}) == 1:
        return 1.0, False
    found = stats.mannwhitneyu(now, before, method="asymptotic")
    return float(found.pvalue), bool(found.statistic > len(before) * len(now) / 2)


def _change(before: Sequence[Rounds], now: Sequence[Rounds]) -> float:
    return float(np.mean(now[0]) / np.mean(before[0]) - 1)


def _welch(before: Sequence[Rounds], now: Sequence[Rounds]) -> bool:
    found = welch(before[0], now[0])
    return found.p_value < 0.05 and found.is_slower


def _welch_and_band(before: Sequence[Rounds], now: Sequence[Rounds]) -> bool:
    return _change(before, now) > 0.03 and _welch(before, now)


def _rank(before: Sequence[Rounds], now: Sequence[Rounds]) -> bool:
    p_value, is_slower = mann_whitney(before[0], now[0])
    return is_slower and p_value < 0.05


def _rank_and_median(before: Sequence[Rounds], now: Sequence[Rounds]) -> bool:
    is_far = float(np.median(now[0]) / np.median(before[0])) > 1.1
    return is_far and mann_whitney(before[0], now[0])[0] < 0.002


def _criterion(before: Sequence[Rounds], now: Sequence[Rounds]) -> bool:
    """By the normal theory instead of 100 000 resamples, which agrees in 99.8 % of simulated cases."""
    found = welch(before[0], now[0])
    return found.p_value < 0.05 and found.low > 0.01


def _minimum(before: Sequence[Rounds], now: Sequence[Rounds]) -> bool:
    return min(now[0]) / min(before[0]) > 1.05


def _mean(before: Sequence[Rounds], now: Sequence[Rounds]) -> bool:
    return _change(before, now) > 0.05


def _conbench(before: Sequence[Rounds], now: Sequence[Rounds]) -> bool:
    """Best of the rounds against the stored bests, by their standard deviation."""
    bests = np.array([float(min(rounds)) for rounds in before])
    error = float(bests.std(ddof=1))
    return bool(min(now[0]) - bests.mean() > 5 * error) if error > 0 else False


def _run_level(before: Sequence[Rounds], now: Sequence[Rounds]) -> bool:
    """Student's test on the means of the runs, `scipy.stats.ttest_ind`."""
    sides = [np.log([float(np.mean(rounds)) for rounds in side]) for side in (before, now)]
    found = _compare_means(sides[0], sides[1], equal_var=True)
    return found.is_slower and found.p_value < 0.05


RULES = (
    Rule("Welch on rounds, p < .05", 1, 1, _welch),
    Rule("the same, and mean > +3 %", 1, 1, _welch_and_band),
    Rule("Mann-Whitney, p < .05 (google/benchmark)", 1, 1, _rank),
    Rule("Mann-Whitney, p < .002, median > +10 % (asv)", 1, 1, _rank_and_median),
    Rule("p < .05, interval > +1 % (criterion)", 1, 1, _criterion),
    Rule("min:5% (pytest-benchmark)", 1, 1, _minimum),
    Rule("mean > +5 %", 1, 1, _mean),
    Rule("z > 5 over stored runs (conbench)", 5, 1, _conbench),
    Rule("t on run means, p < .05", 5, MINIMUM_NEW_RUNS, _run_level),
)


def is_flagged(rule: Rule, resample: Resample, subject: Subject, policies: Mapping[str, Policy]) -> bool | None:
    """Whether a rule calls a subject slower; None where the resample has too few runs or rounds for it."""
    if len(resample.stored) < rule.stored or len(resample.new) < rule.new:
        return None
    metric = policies.get(subject.case, Policy()).metric
    stored = resample.stored[: rule.stored] if resample.is_paired else resample.stored[-rule.stored :]
    sides = [
        [tuple(one.summaries[subject].rounds.get(metric, ())) for one in runs]
        for runs in (stored, resample.new[: rule.new])
    ]
    if any(len(rounds) < 2 or not min(rounds) > 0 for side in sides for rounds in side):
        return None
    return rule.fires(sides[0], sides[1])
