"""Many random resamples of unchanged code, over several processes: the gate, and the rules of other tools."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

import numpy as np
from scipy import stats

from benchmarks.validate.rules import RULES, is_flagged
from benchmarks.validate.study import Study
from pytest_nsight.calibrate.false_alarms import (
    AlarmRates,
    Alarms,
    Rate,
    ResampleOutcome,
    count_alarms,
    judge_resample,
    sum_up,
)
from pytest_nsight.calibrate.replayed_gate import replay
from pytest_nsight.calibrate.resampling import Resample, Situation, draw_resamples
from pytest_nsight.model.values import Policy, Subject

CHUNK = 50
T = TypeVar("T")
Task = tuple[object, ...]

_shared: list[Study] = []


def share_study(study: Study) -> None:
    """Sets what the tasks of this process and of its children work on."""
    _shared[:] = [study]


def shared_study() -> Study:
    """What this process works on."""
    return _shared[0]


def spread(function: Callable[..., T], tasks: Sequence[Task], processes: int) -> list[T]:
    """Results of function(*task), in order; the children inherit the study, so that nothing is copied to them."""
    if processes == 1:
        return [function(*task) for task in tasks]
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        return list(pool.map(function, *zip(*tasks, strict=True))) if tasks else []


@dataclass(frozen=True)
class StudyAlarms:
    """False alarms in one situation at one band.

    Attributes:
        gate: of the gate.
        rules: of each of RULES; empty where they were not asked.
    """

    gate: Alarms
    rules: tuple[AlarmRates, ...] = ()


@dataclass(frozen=True)
class _Judged:
    """One resample.

    Attributes:
        outcome: by the gate.
        flagged: for each of RULES the number of subjects called slower; None where it could not be asked.
    """

    outcome: ResampleOutcome
    flagged: tuple[int | None, ...]


def measure_false_alarms(
    situation: Situation, band: float, resamples: int, seed: int, processes: int, *, with_rules: bool
) -> StudyAlarms | None:
    """Judges random resamples; None where the data has no sessions for the situation.

    Args:
        situation: where stored and new runs come from.
        band: of the gate.
        resamples: number of random resamples; the same ones at every band.
        seed: chooses them.
        processes: that share the work.
        with_rules: whether to ask the other rules, too, which know no band.
    """
    tasks: list[Task] = [
        (situation, band, min(CHUNK, resamples - start), seed + start, with_rules)
        for start in range(0, resamples, CHUNK)
    ]
    judged = [one for chunk in spread(_judge_chunk, tasks, processes) for one in chunk]
    if not judged:
        return None
    rng = np.random.default_rng(seed)
    rules = []
    for index in range(len(judged[0].flagged)):
        asked = [(one.outcome, one.flagged[index] or 0) for one in judged if one.flagged[index] is not None]
        rules.append(count_alarms([outcome for outcome, _ in asked], [flagged for _, flagged in asked], rng))
    return StudyAlarms(sum_up(situation, [one.outcome for one in judged], rng), tuple(rules))


def _judge_chunk(situation: Situation, band: float, resamples: int, seed: int, with_rules: bool) -> list[_Judged]:  # noqa: FBT001
    study = shared_study()
    rng = np.random.default_rng(seed)
    drawn = itertools.islice(draw_resamples(study.sound, situation, rng), resamples)
    policies = study.with_band(band)
    judged = []
    for resample in drawn:
        outcome = judge_resample(resample, policies)
        flagged = [_count_flagged(index, resample, outcome, policies) for index in range(len(RULES) * with_rules)]
        judged.append(_Judged(outcome, tuple(flagged)))
    return judged


def _count_flagged(
    index: int, resample: Resample, outcome: ResampleOutcome, policies: Mapping[str, Policy]
) -> int | None:
    answers = [is_flagged(RULES[index], resample, subject, policies) for subject in outcome.subjects]
    known = [answer for answer in answers if answer is not None]
    return sum(known) if known else None


@dataclass(frozen=True)
class Strictness:
    """What --nsight-strict makes of unchanged code.

    Attributes:
        suites: resamples in which any case was not settled.
        cases: cases of all resamples that were not.
        worst: the three cases that most often were not, with how often.
        runs: mean number of runs that were measured of a case.
    """

    suites: Rate
    cases: Rate
    worst: tuple[tuple[Subject, int], ...]
    runs: float


def measure_strictness(
    situation: Situation, band: float, resamples: int, seed: int, processes: int
) -> Strictness | None:
    """Judges random resamples as --nsight-strict does; None where the data has no sessions for the situation."""
    tasks: list[Task] = [
        (situation, band, min(CHUNK, resamples - start), seed + start) for start in range(0, resamples, CHUNK)
    ]
    found = [replayed for chunk in spread(_judge_strictly, tasks, processes) for replayed in chunk]
    if not found:
        return None
    unsettled = Counter(subject for subjects, _ in found for subject in subjects)
    total = len(found) * len(shared_study().subjects)
    return Strictness(
        Rate(sum(bool(subjects) for subjects, _ in found), len(found)),
        Rate(unsettled.total(), total),
        tuple(unsettled.most_common(3)),
        sum(runs for _, runs in found) / total,
    )


def _judge_strictly(
    situation: Situation, band: float, resamples: int, seed: int
) -> list[tuple[tuple[Subject, ...], int]]:
    study = shared_study()
    policies, found = study.with_band(band), []
    for resample in itertools.islice(
        draw_resamples(study.sound, situation, np.random.default_rng(seed)), resamples
    ):
        replayed = replay(resample, policies, is_strict=True)
        unsettled = tuple(verdict.subject for verdict in replayed.verdicts if verdict.kind.fails_strict)
        found.append((unsettled, sum(replayed.runs.values())))
    return found


def collect_p_values(situation: Situation, resamples: int, seed: int) -> list[float]:
    """The p-values of "not slower" of 5 new runs of every subject, without looks."""
    study = shared_study()
    rng = np.random.default_rng(seed)
    return [
        verdict.comparison.p_slower
        for resample in itertools.islice(draw_resamples(study.sound, situation, rng), resamples)
        for verdict in replay(resample, study.with_band(0.02), fixed=5).verdicts
        if verdict.comparison is not None
    ]


def describe_p_values(p_values: Iterable[float]) -> dict[str, float]:
    """Kolmogorov-Smirnov's distance from uniform, and the shares in the tails."""
    values = np.asarray(list(p_values))
    return {
        "number": float(values.size),
        "ks_distance": float(stats.kstest(values, "uniform").statistic),
        "below_0.01": float(np.mean(values < 0.01)),
        "below_0.05": float(np.mean(values < 0.05)),
        "above_0.95": float(np.mean(values > 0.95)),
        "above_0.99": float(np.mean(values > 0.99)),
    }
