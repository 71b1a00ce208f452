"""Many random splits of unchanged code, over several processes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

import numpy as np
from scipy import stats

from benchmarks.validate.study import Study
from pytest_nsight.calibrate.false_alarms import Alarms, Outcome, Rate, judge_split, sum_up
from pytest_nsight.calibrate.replayed_gate import replay
from pytest_nsight.calibrate.resampling import Situation, draw_splits
from pytest_nsight.model.values import Subject

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


def measure_false_alarms(
    situation: Situation, band: float, splits: int, seed: int, processes: int, *, with_rules: bool
) -> Alarms | None:
    """Judges random splits; None where the data has no sessions for the situation.

    Args:
        situation: where stored and new runs come from.
        band: of the gate.
        splits: number of random splits; the same ones at every band.
        seed: chooses them.
        processes: that share the work.
        with_rules: whether to ask the other rules, too, which know no band.
    """
    tasks: list[Task] = [
        (situation, band, min(CHUNK, splits - start), seed + start, with_rules) for start in range(0, splits, CHUNK)
    ]
    outcomes = [outcome for chunk in spread(_judge_chunk, tasks, processes) for outcome in chunk]
    return sum_up(situation, outcomes, np.random.default_rng(seed)) if outcomes else None


def _judge_chunk(situation: Situation, band: float, splits: int, seed: int, with_rules: bool) -> list[Outcome]:  # noqa: FBT001
    study = shared_study()
    rng = np.random.default_rng(seed)
    drawn = itertools.islice(draw_splits(study.sound, situation, rng), splits)
    policies = study.with_band(band)
    return [judge_split(split, policies, with_rules=with_rules) for split in drawn]


@dataclass(frozen=True)
class Strictness:
    """What --nsight-strict makes of unchanged code.

    Attributes:
        suites: splits in which any case was not settled.
        cases: cases of all splits that were not.
        worst: the three cases that most often were not, with how often.
        runs: mean number of runs that were measured of a case.
    """

    suites: Rate
    cases: Rate
    worst: tuple[tuple[Subject, int], ...]
    runs: float


def measure_strictness(
    situation: Situation, band: float, splits: int, seed: int, processes: int
) -> Strictness | None:
    """Judges random splits as --nsight-strict does; None where the data has no sessions for the situation."""
    tasks: list[Task] = [
        (situation, band, min(CHUNK, splits - start), seed + start) for start in range(0, splits, CHUNK)
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
    situation: Situation, band: float, splits: int, seed: int
) -> list[tuple[tuple[Subject, ...], int]]:
    study = shared_study()
    policies, found = study.with_band(band), []
    for split in itertools.islice(draw_splits(study.sound, situation, np.random.default_rng(seed)), splits):
        replayed = replay(split, policies, is_strict=True)
        unsettled = tuple(verdict.subject for verdict in replayed.verdicts if verdict.kind.fails_strict)
        found.append((unsettled, sum(replayed.runs.values())))
    return found


def collect_p_values(situation: Situation, splits: int, seed: int) -> list[float]:
    """The p-values of "not slower" of 5 new runs of every subject, without looks."""
    study = shared_study()
    rng = np.random.default_rng(seed)
    return [
        verdict.comparison.p_slower
        for split in itertools.islice(draw_splits(study.sound, situation, rng), splits)
        for verdict in replay(split, study.with_band(0.02), fixed=5).verdicts
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
