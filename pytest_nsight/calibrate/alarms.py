"""How often the gate and the simpler rules cry wolf over unchanged code."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pytest_nsight.calibrate.pool import Process
from pytest_nsight.calibrate.rates import Rate, bootstrap_sessions
from pytest_nsight.calibrate.replay import Replay, replay
from pytest_nsight.calibrate.rules import RULES, is_flagged
from pytest_nsight.calibrate.splits import STORED_RUNS, Situation, Split, draw_splits
from pytest_nsight.model import Policy, Subject
from pytest_nsight.result import VerdictKind


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
    processes: Sequence[Process],
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
