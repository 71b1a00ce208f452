"""How often the gate and the simpler rules cry wolf over unchanged code.

MERGED: Rates with their uncertainty.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from pytest_nsight.calibrate.other_rules import RULES, is_flagged
from pytest_nsight.calibrate.pool import PooledRun
from pytest_nsight.calibrate.replayed_gate import Replay, replay
from pytest_nsight.calibrate.resampling import STORED_RUNS, Situation, Split, draw_splits
from pytest_nsight.model.values import Policy, Subject
from pytest_nsight.model.verdicts import VerdictKind


@dataclass(frozen=True, slots=True)
class RuleAlarms:
    """False alarms of one rule.

    Attributes:
        name: of the rule.
        suites: splits in which any subject was called slower.
        subjects: subjects of all splits that were.
        by_session: 95 % interval of the rate of suites, by resampling sessions; None where it cannot be told.
    """

    name: str
    suites: Rate
    subjects: Rate
    by_session: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Alarms:
    """What splits of unchanged code came to in one situation.

    Attributes:
        situation: where the runs came from.
        splits: number of splits.
        gate: alarms of this gate.
        regressions: subjects told REGRESSION.
        improvements: subjects told IMPROVEMENT.
        improved_suites: splits in which any subject was told IMPROVEMENT.
        verdicts: kind -> subjects.
        processes: mean number of processes that a check took.
        runs: mean number of runs that were measured of a subject, another tree's included.
        failed: subject -> splits in which it failed.
        rules: alarms of the other rules.
    """

    situation: Situation
    splits: int
    gate: RuleAlarms
    regressions: int
    improvements: int
    improved_suites: Rate
    verdicts: Mapping[VerdictKind, int]
    processes: float
    runs: float
    failed: Mapping[Subject, int]
    rules: tuple[RuleAlarms, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one split.

    Attributes:
        sessions: of its stored and its new runs, each once.
        kinds: verdicts of its subjects, counted.
        processes: fresh processes that the check took.
        runs: runs that were measured of all subjects.
        subjects: number of subjects.
        failed: those that failed.
        flagged: for each of RULES the number of subjects called slower; None where it could not be asked.
    """

    sessions: tuple[str, ...]
    kinds: Counter[VerdictKind]
    processes: int
    runs: int
    subjects: int
    failed: tuple[Subject, ...]
    flagged: tuple[int | None, ...] = field(default=())


def judge_split(split: Split, policies: Mapping[str, Policy], *, with_rules: bool = True) -> Outcome:
    """Asks the gate and the other rules about one split."""
    found: Replay = replay(split, policies)
    subjects = [verdict.subject for verdict in found.verdicts]
    flagged: list[int | None] = []
    for rule in RULES if with_rules else ():
        answers = [is_flagged(rule, split, subject, policies) for subject in subjects]
        known = [answer for answer in answers if answer is not None]
        flagged.append(sum(known) if known else None)
    return Outcome(
        split.sessions,
        Counter(verdict.kind for verdict in found.verdicts),
        found.processes,
        sum(found.runs.values()),
        len(subjects),
        tuple(verdict.subject for verdict in found.verdicts if verdict.kind.fails),
        tuple(flagged),
    )


def measure_alarms(
    processes: Sequence[PooledRun],
    policies: Mapping[str, Policy],
    situation: Situation,
    splits: int,
    rng: np.random.Generator,
    *,
    stored: int = STORED_RUNS,
) -> Alarms | None:
    """Judges random splits of a pool of unchanged code; None if the pool has no sessions for the situation."""
    drawn = itertools.islice(draw_splits(processes, situation, rng, stored=stored), splits)
    outcomes = [judge_split(split, policies) for split in drawn]
    return sum_up(situation, outcomes, rng) if outcomes else None


def sum_up(situation: Situation, outcomes: Sequence[Outcome], rng: np.random.Generator) -> Alarms:
    """Counts over splits."""
    kinds: Counter[VerdictKind] = Counter()
    for outcome in outcomes:
        kinds.update(outcome.kinds)
    total = sum(outcome.subjects for outcome in outcomes)
    improved = sum(outcome.kinds[VerdictKind.IMPROVEMENT] > 0 for outcome in outcomes)
    rules = []
    for index, rule in enumerate(RULES if outcomes[0].flagged else ()):
        asked = [outcome for outcome in outcomes if outcome.flagged[index] is not None]
        rules.append(_count(rule.name, asked, [outcome.flagged[index] or 0 for outcome in asked], rng))
    return Alarms(
        situation=situation,
        splits=len(outcomes),
        gate=_count("this gate", outcomes, [len(outcome.failed) for outcome in outcomes], rng),
        regressions=kinds[VerdictKind.REGRESSION],
        improvements=kinds[VerdictKind.IMPROVEMENT],
        improved_suites=Rate(improved, len(outcomes)),
        verdicts=kinds,
        processes=sum(outcome.processes for outcome in outcomes) / len(outcomes),
        runs=sum(outcome.runs for outcome in outcomes) / max(total, 1),
        failed=Counter(subject for outcome in outcomes for subject in outcome.failed),
        rules=tuple(rules),
    )


def _count(name: str, outcomes: Sequence[Outcome], flagged: Sequence[int], rng: np.random.Generator) -> RuleAlarms:
    hits = [number > 0 for number in flagged]
    return RuleAlarms(
        name,
        suites=Rate(sum(hits), len(hits)),
        subjects=Rate(sum(flagged), sum(outcome.subjects for outcome in outcomes)),
        by_session=bootstrap_sessions(hits, [outcome.sessions for outcome in outcomes], rng) if hits else None,
    )


CONFIDENCE = 0.95
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Rate:
    """How often something happened.

    Attributes:
        hits: how often.
        trials: of how many.
    """

    hits: int
    trials: int

    @property
    def value(self) -> float:
        """Hits per trial; NaN without trials."""
        return self.hits / self.trials if self.trials else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Exact 95 % interval for independent trials (Clopper and Pearson 1934)."""
        if not self.trials:
            return 0.0, 1.0
        found = stats.binomtest(self.hits, self.trials).proportion_ci(CONFIDENCE, "exact")
        return float(found.low), float(found.high)

    def write(self) -> str:
        """The rate and its interval in percent."""
        if not self.trials:
            return "-"
        low, high = self.interval
        return f"{100 * self.value:.2f} % [{100 * low:.2f}, {100 * high:.2f}]"


def bootstrap_sessions(
    hits: Sequence[bool], sessions: Sequence[tuple[str, ...]], rng: np.random.Generator
) -> tuple[float, float] | None:
    """The 95 % interval of a rate over splits, by resampling the sessions that the splits were drawn from.

    Splits of one pool share runs and sessions, so they are no independent trials: sessions are. Each resample
    draws sessions with replacement and weighs a split by how often its sessions were drawn, the product for
    different ones (the pigeonhole bootstrap, Owen 2007, doi 10.1214/07-AOAS122).

    Args:
        hits: whether it happened, for each split.
        sessions: of the stored and of the new runs of each split, each once.
        rng: resamples.

    Returns:
        The interval; None with fewer than 3 sessions, and where every split agrees, for then there is nothing
        to resample and the interval would wrongly be a point.
    """
    names = sorted({name for own in sessions for name in own})
    values = np.asarray(hits, dtype=np.float64)
    if len(names) < 3 or values.min() == values.max():
        return None
    position = {name: index for index, name in enumerate(names)}
    # A session that every resample draws once, for splits that have fewer sessions than others.
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
