"""The rules of other tools, on the rounds and runs that the gate sees.

Each says whether it would call the new side slower. Where a tool compares with one stored run, it gets the last
stored and the first new one. The sources and defaults are those of the tools' documentation; what differs is
told at the rule.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from pytest_nsight.calibrate.resampling import Split
from pytest_nsight.judge.subject_runs import MINIMUM_NEW_RUNS
from pytest_nsight.model.values import Policy, Subject

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sample:
    """The rounds of one run.

    Attributes:
        sorted_ns: durations, shortest first.
        mean_ns: their mean.
        variance: of one round, in ns squared.
    """

    sorted_ns: Floats
    mean_ns: float
    variance: float

    @property
    def size(self) -> int:
        """Number of rounds."""
        return int(self.sorted_ns.size)

    @property
    def median_ns(self) -> float:
        """Median of the rounds."""
        middle = self.size // 2
        if self.size % 2:
            return float(self.sorted_ns[middle])
        return float(self.sorted_ns[middle - 1] + self.sorted_ns[middle]) / 2


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to tell a slowdown.

    Attributes:
        name: what the report calls it.
        stored: stored runs that it looks at.
        new: new runs that it looks at.
        fires: whether it calls the new side slower.
    """

    name: str
    stored: int
    new: int
    fires: Callable[[Sequence[Sample], Sequence[Sample]], bool]


@functools.lru_cache(maxsize=1 << 16)
def take_sample(rounds: tuple[int, ...]) -> Sample:
    """The rounds of a run, sorted and summed up; splits share runs, so each is done once."""
    durations = np.sort(np.asarray(rounds, dtype=np.float64))
    if durations.size < 2:
        return Sample(durations, float(durations.sum()), 0.0)
    return Sample(durations, float(durations.mean()), float(durations.var(ddof=1)))


def welch(before: Sample, now: Sample) -> tuple[float, float, float]:
    """Welch's test on rounds.

    Returns:
        The two-sided p-value, and the 95 % interval of the relative change of the mean.
    """
    parts = (before.variance / before.size, now.variance / now.size)
    error = math.sqrt(sum(parts))
    difference = now.mean_ns - before.mean_ns
    if error == 0:
        change = difference / before.mean_ns
        return (1.0 if difference == 0 else 0.0), change, change
    df = sum(parts) ** 2 / (parts[0] ** 2 / (before.size - 1) + parts[1] ** 2 / (now.size - 1))
    p_value = 2 * float(special.stdtr(df, -abs(difference) / error))
    half = float(special.stdtrit(df, 0.975)) * error
    return p_value, (difference - half) / before.mean_ns, (difference + half) / before.mean_ns


def mann_whitney(before: Sample, now: Sample) -> tuple[float, bool]:
    """The rank test of Mann and Whitney in its normal form, with ties, as `scipy.stats.mannwhitneyu`.

    Returns:
        The two-sided p-value, and whether the new side ranks higher.
    """
    left = np.searchsorted(before.sorted_ns, now.sorted_ns, "left")
    right = np.searchsorted(before.sorted_ns, now.sorted_ns, "right")
    larger = float(left.sum() + right.sum()) / 2
    pairs, total = before.size * now.size, before.size + now.size
    _, ties = np.unique(np.concatenate((before.sorted_ns, now.sorted_ns)), return_counts=True)
    lost = float((ties.astype(np.float64) ** 3 - ties).sum()) / (total * (total - 1))
    error = math.sqrt(pairs / 12 * (total + 1 - lost)) if total + 1 > lost else 0.0
    if error == 0:
        return 1.0, False
    z = max(abs(larger - pairs / 2) - 0.5, 0.0) / error
    return min(1.0, 2 * float(special.ndtr(-z))), larger > pairs / 2


def _change(before: Sequence[Sample], now: Sequence[Sample]) -> float:
    return now[0].mean_ns / before[0].mean_ns - 1


def _welch(before: Sequence[Sample], now: Sequence[Sample]) -> bool:
    return welch(before[0], now[0])[0] < 0.05 and _change(before, now) > 0


def _welch_and_band(before: Sequence[Sample], now: Sequence[Sample]) -> bool:
    return _change(before, now) > 0.03 and _welch(before, now)


def _rank(before: Sequence[Sample], now: Sequence[Sample]) -> bool:
    p_value, is_slower = mann_whitney(before[0], now[0])
    return is_slower and p_value < 0.05


def _rank_and_median(before: Sequence[Sample], now: Sequence[Sample]) -> bool:
    return now[0].median_ns / before[0].median_ns > 1.1 and mann_whitney(before[0], now[0])[0] < 0.002


def _criterion(before: Sequence[Sample], now: Sequence[Sample]) -> bool:
    """By the normal theory instead of 100 000 resamples, which agrees in 99.8 % of simulated cases."""
    p_value, low, _ = welch(before[0], now[0])
    return p_value < 0.05 and low > 0.01


def _minimum(before: Sequence[Sample], now: Sequence[Sample]) -> bool:
    return bool(now[0].sorted_ns[0] / before[0].sorted_ns[0] > 1.05)


def _mean(before: Sequence[Sample], now: Sequence[Sample]) -> bool:
    return _change(before, now) > 0.05


def _conbench(before: Sequence[Sample], now: Sequence[Sample]) -> bool:
    """Best of the rounds against the stored bests, by their standard deviation."""
    bests = np.array([float(sample.sorted_ns[0]) for sample in before])
    error = float(bests.std(ddof=1))
    return bool(now[0].sorted_ns[0] - bests.mean() > 5 * error) if error > 0 else False


def student(before: Floats, now: Floats) -> tuple[float, bool]:
    """Student's test as `scipy.stats.ttest_ind`, at a tenth of its cost.

    Returns:
        The two-sided p-value, and whether the new mean is larger.
    """
    difference = float(now.mean() - before.mean())
    df = before.size + now.size - 2
    squares = float(((before - before.mean()) ** 2).sum() + ((now - now.mean()) ** 2).sum())
    error = math.sqrt(squares / df * (1 / before.size + 1 / now.size))
    if error == 0:
        return (1.0 if difference == 0 else 0.0), difference > 0
    return 2 * float(special.stdtr(df, -abs(difference) / error)), difference > 0


def _run_level(before: Sequence[Sample], now: Sequence[Sample]) -> bool:
    sides = [np.log([sample.mean_ns for sample in side]) for side in (before, now)]
    p_value, is_slower = student(sides[0], sides[1])
    return is_slower and p_value < 0.05


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


def is_flagged(rule: Rule, split: Split, subject: Subject, policies: Mapping[str, Policy]) -> bool | None:
    """Whether a rule calls a subject slower; None where the split has too few runs or rounds for it."""
    if len(split.stored) < rule.stored or len(split.new) < rule.new:
        return None
    metric = policies.get(subject.case, Policy()).metric
    stored = split.stored[: rule.stored] if split.is_paired else split.stored[-rule.stored :]
    sides = [
        [take_sample(tuple(one.summaries[subject].rounds.get(metric, ()))) for one in runs]
        for runs in (stored, split.new[: rule.new])
    ]
    if any(sample.size < 2 or not sample.sorted_ns[0] > 0 for side in sides for sample in side):
        return None
    return rule.fires(sides[0], sides[1])
