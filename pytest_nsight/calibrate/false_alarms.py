"""The gate's false alarms: how often it fails unchanged code, by resampling a pool.

Every rate comes with its uncertainty.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from pytest_nsight.calibrate.pool import PooledRun
from pytest_nsight.calibrate.replayed_gate import replay
from pytest_nsight.calibrate.resampling import STORED_RUNS, Resample, Situation, draw_resamples
from pytest_nsight.model.values import Policy, Subject
from pytest_nsight.model.verdicts import VerdictKind


@dataclass(frozen=True, slots=True)
class AlarmRates:
    """How often unchanged code is called slower.

    Attributes:
        suites: resamples in which any subject is.
        subjects: subjects of all resamples that are.
        by_session: 95 % interval of the rate of suites, by resampling sessions; None where there is too little to
            resample.
    """

    suites: Rate
    subjects: Rate
    by_session: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Alarms:
    """The gate's verdicts on resamples of unchanged code in one situation.

    Attributes:
        situation: where the runs came from.
        resamples: number of resamples.
        gate: its false alarms.
        regressions: subjects with the verdict REGRESSION.
        improvements: subjects with the verdict IMPROVEMENT.
        improved_suites: resamples in which any subject has the verdict IMPROVEMENT.
        verdicts: kind -> subjects.
        processes: mean number of processes that a check took.
        runs: mean number of runs that were measured of a subject, another tree's included.
        failed: subject -> resamples in which it failed.
    """

    situation: Situation
    resamples: int
    gate: AlarmRates
    regressions: int
    improvements: int
    improved_suites: Rate
    verdicts: Mapping[VerdictKind, int]
    processes: float
    runs: float
    failed: Mapping[Subject, int]


@dataclass(frozen=True, slots=True)
class ResampleOutcome:
    """The gate's verdicts on one resample.

    Attributes:
        sessions: of its stored and its new runs, each once.
        kinds: verdicts of its subjects, counted.
        processes: fresh processes that the check took.
        runs: runs that were measured of all subjects.
        subjects: its subjects.
        failed: those that failed.
    """

    sessions: tuple[str, ...]
    kinds: Counter[VerdictKind]
    processes: int
    runs: int
    subjects: tuple[Subject, ...]
    failed: tuple[Subject, ...]


def judge_resample(resample: Resample, policies: Mapping[str, Policy]) -> ResampleOutcome:
    """Asks the gate about one resample."""
    found = replay(resample, policies)
    return ResampleOutcome(
        resample.sessions,
        Counter(verdict.kind for verdict in found.verdicts),
        found.processes,
        sum(found.runs.values()),
        tuple(verdict.subject for verdict in found.verdicts),
        tuple(verdict.subject for verdict in found.verdicts if verdict.kind.fails),
    )


def measure_alarms(
    processes: Sequence[PooledRun],
    policies: Mapping[str, Policy],
    situation: Situation,
    resamples: int,
    rng: np.random.Generator,
    *,
    stored: int = STORED_RUNS,
) -> Alarms | None:
    """Judges random resamples of a pool of unchanged code; None if the pool has no sessions for the situation."""
    drawn = itertools.islice(draw_resamples(processes, situation, rng, stored=stored), resamples)
    outcomes = [judge_resample(resample, policies) for resample in drawn]
    return sum_up(situation, outcomes, rng) if outcomes else None


def sum_up(situation: Situation, outcomes: Sequence[ResampleOutcome], rng: np.random.Generator) -> Alarms:
    """Counts over resamples, at least one."""
    kinds: Counter[VerdictKind] = Counter()
    for outcome in outcomes:
        kinds.update(outcome.kinds)
    total = sum(len(outcome.subjects) for outcome in outcomes)
    improved = sum(outcome.kinds[VerdictKind.IMPROVEMENT] > 0 for outcome in outcomes)
    return Alarms(
        situation=situation,
        resamples=len(outcomes),
        gate=count_alarms(outcomes, [len(outcome.failed) for outcome in outcomes], rng),
        regressions=kinds[VerdictKind.REGRESSION],
        improvements=kinds[VerdictKind.IMPROVEMENT],
        improved_suites=Rate(improved, len(outcomes)),
        verdicts=kinds,
        processes=sum(outcome.processes for outcome in outcomes) / len(outcomes),
        runs=sum(outcome.runs for outcome in outcomes) / max(total, 1),
        failed=Counter(subject for outcome in outcomes for subject in outcome.failed),
    )


def count_alarms(
    outcomes: Sequence[ResampleOutcome], flagged: Sequence[int], rng: np.random.Generator
) -> AlarmRates:
    """The rates of alarms over resamples.

    Args:
        outcomes: of the resamples.
        flagged: how many subjects of each are called slower, by the gate or by another rule.
        rng: resamples sessions for the interval.
    """
    hits = [number > 0 for number in flagged]
    return AlarmRates(
        suites=Rate(sum(hits), len(hits)),
        subjects=Rate(sum(flagged), sum(len(outcome.subjects) for outcome in outcomes)),
        by_session=bootstrap_sessions(hits, [outcome.sessions for outcome in outcomes], rng) if hits else None,
    )


CONFIDENCE = 0.95
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Rate:
    """How often something happened.

    Attributes:
        hits: how often.
        attempts: of how many.
    """

    hits: int
    attempts: int

    @property
    def value(self) -> float:
        """Hits per attempt; NaN without attempts."""
        return self.hits / self.attempts if self.attempts else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Exact 95 % interval for independent attempts (Clopper and Pearson 1934)."""
        if not self.attempts:
            return 0.0, 1.0
        found = stats.binomtest(self.hits, self.attempts).proportion_ci(CONFIDENCE, "exact")
        return float(found.low), float(found.high)

    def write(self) -> str:
        """The rate and its interval in percent."""
        if not self.attempts:
            return "-"
        low, high = self.interval
        return f"{100 * self.value:.2f} % [{100 * low:.2f}, {100 * high:.2f}]"


def bootstrap_sessions(
    hits: Sequence[bool], sessions: Sequence[tuple[str, ...]], rng: np.random.Generator
) -> tuple[float, float] | None:
    """The 95 % interval of a rate over resamples, by resampling the sessions that the resamples were drawn from.

    Resamples of one pool share runs and sessions, so they are not independent: sessions are. Each draw takes
    sessions with replacement and weights a resample by how often its sessions were drawn, the product for
    different ones (the pigeonhole bootstrap, Owen 2007, doi 10.1214/07-AOAS122).

    Args:
        hits: whether it happened, for each resample.
        sessions: of the stored and of the new runs of each resample, each once.
        rng: resamples.

    Returns:
        The interval; None with fewer than 3 sessions, and where every resample agrees, for then there is nothing
        to resample and the interval would wrongly be a point.
    """
    names = sorted({name for own in sessions for name in own})
    values = np.asarray(hits, dtype=np.float64)
    if len(names) < 3 or values.min() == values.max():
        return None
    position = {name: index for index, name in enumerate(names)}
    # A session that every resample draws once, for resamples that have fewer sessions than others.
    none = len(names)
    most = max(map(len, sessions))
    columns = ([position[own[k]] if k < len(own) else none for own in sessions] for k in range(most))
    drawn = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=_RESAMPLES)
    drawn = np.column_stack([drawn, np.ones(_RESAMPLES, dtype=drawn.dtype)])
    weights = np.ones((_RESAMPLES, len(sessions)))
    for column in columns:
        weights *= drawn[:, column]
    totals = weights.sum(axis=1)
    found = (weights @ values)[totals > 0] / totals[totals > 0]
    low, high = np.quantile(found, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)
