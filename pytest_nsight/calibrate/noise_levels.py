"""The noise of each case: between runs, sessions and boards, and the slowdown that the gate would find."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_nsight.calibrate.pool import PooledRun
from pytest_nsight.calibrate.replayed_gate import replay
from pytest_nsight.calibrate.resampling import Resample, Situation, draw_resamples, group_by_session
from pytest_nsight.judge.location import Location, locate_all
from pytest_nsight.judge.noise import pool_within
from pytest_nsight.judge.subject_runs import FIRST_PAIRS
from pytest_nsight.model.values import Policy, Subject

MDE_SITUATIONS = (Situation.SAME_SESSION, Situation.SAME_BOARD, Situation.OTHER_BOARD)
"""Situations that the smallest slowdown is worked out for."""

_DRAWS = 9
_LATER = "a later session"


@dataclass(frozen=True, slots=True)
class CaseNoise:
    """The noise of one subject.

    Attributes:
        subject: whose.
        time_ns: exp of the mean location of all runs.
        run_sd: of log time between runs of a session.
        session_shift: largest difference of the means of two sessions on one board, of log time; None where
            no board has two.
        board_shift: largest difference of the means of two boards, of log time; None with one board.
        mde: situation -> smallest relative slowdown that the gate finds with probability .95; situations that the
            pool has too little for are left out.
    """

    subject: Subject
    time_ns: float
    run_sd: float
    session_shift: float | None
    board_shift: float | None
    mde: Mapping[Situation, float]


def measure_levels(
    processes: Sequence[PooledRun], policies: Mapping[str, Policy], stored: int, rng: np.random.Generator
) -> tuple[CaseNoise, ...]:
    """Measures the noise of every subject of a pool, canaries last; subjects without a location are left out.

    Args:
        processes: runs of the pool.
        policies: case -> what its verdict must obey.
        stored: stored runs that the smallest slowdown assumes.
        rng: chooses the runs that stand for stored ones.
    """
    detectable = find_detectable(processes, policies, stored, rng)
    levels = []
    for subject in sorted(processes[0].summaries, key=lambda subject: (subject.is_canary, subject)):
        metric = policies.get(subject.case, Policy()).metric
        sessions = [
            locate_all([one.summaries[subject] for one in runs], metric).locations
            for runs in group_by_session(processes)
        ]
        level = _measure(subject, [group for group in sessions if group], detectable.get(subject, {}))
        if level is not None:
            levels.append(level)
    return tuple(levels)


def _measure(
    subject: Subject, groups: Sequence[Sequence[Location]], mde: Mapping[Situation, float]
) -> CaseNoise | None:
    if not groups:
        return None
    logs = [[location.log_ns for location in group] for group in groups]
    squares, df = pool_within(logs)
    means: dict[str, list[float]] = {}
    for group, values in zip(groups, logs, strict=True):
        means.setdefault(group[0].board, []).append(statistics.fmean(values))
    ranges = [max(own) - min(own) for own in means.values() if len(own) > 1]
    boards = [statistics.fmean(own) for own in means.values()]
    return CaseNoise(
        subject=subject,
        time_ns=math.exp(statistics.fmean(itertools.chain(*logs))),
        run_sd=math.sqrt(squares / df) if df else math.nan,
        session_shift=max(ranges) if ranges else None,
        board_shift=max(boards) - min(boards) if len(boards) > 1 else None,
        mde=mde,
    )


def find_detectable(
    processes: Sequence[PooledRun], policies: Mapping[str, Policy], stored: int, rng: np.random.Generator
) -> dict[Subject, dict[Situation, float]]:
    """The smallest slowdown that the gate would find, as the gate itself prints it beside a verdict.

    It is the median over random resamples. Where the pool has none, its largest session is used: a few pairs of its
    runs for two trees, and one of them, under another name, for the run of a later session. Another board cannot be
    imitated like this, since only boards show how far boards differ.
    """
    found: dict[Subject, dict[Situation, list[float]]] = {}
    for situation in MDE_SITUATIONS:
        drawn = draw_resamples(processes, situation, rng, stored=stored)
        resamples = list(itertools.islice(drawn, _DRAWS))
        resamples = resamples or _stand_in(processes, situation, stored, rng)
        for resample in resamples:
            for verdict in replay(resample, policies, fixed=resample.first_look).verdicts:
                if verdict.comparison is not None:
                    by_situation = found.setdefault(verdict.subject, {})
                    by_situation.setdefault(situation, []).append(verdict.comparison.mde)
    return {
        subject: {situation: statistics.median(values) for situation, values in by_situation.items()}
        for subject, by_situation in found.items()
    }


def _stand_in(
    processes: Sequence[PooledRun], situation: Situation, stored: int, rng: np.random.Generator
) -> list[Resample]:
    runs = max(group_by_session(processes), key=len)
    is_ab = situation is Situation.SAME_SESSION
    taken = 2 * FIRST_PAIRS if is_ab else stored + 1
    if situation is Situation.OTHER_BOARD or len(runs) < taken:
        return []
    resamples = []
    for _ in range(_DRAWS):
        chosen = tuple(runs[index] for index in rng.permutation(len(runs))[:taken])
        if is_ab:
            resamples.append(Resample(situation, chosen[::2], chosen[1::2], is_paired=True))
        else:
            resamples.append(Resample(situation, chosen[:-1], (_move_later(chosen[-1]),)))
    return resamples


def _move_later(process: PooledRun) -> PooledRun:
    summaries = {subject: replace(summary, session=_LATER) for subject, summary in process.summaries.items()}
    return PooledRun(process.run, _LATER, process.board, summaries)
