"""How often a slowdown is found: really injected ones, and sound rounds multiplied by the same factor.

One case at a time is slower; all others are unchanged, which is the hardest case for the correction over the suite.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.validate.false_alarms import Task, shared_study, spread
from benchmarks.validate.rules import RULES, is_flagged
from benchmarks.validate.study import LONG_NS, SHORT_NS, Study, injectable, level_in
from benchmarks.validation_suite.injection import LEVELS
from pytest_nsight.calibrate.pool import PooledRun
from pytest_nsight.calibrate.replayed_gate import replay
from pytest_nsight.calibrate.resampling import (
    Resample,
    Situation,
    draw_resamples,
    draw_stored,
    group_by_session,
    list_stored,
)
from pytest_nsight.judge.location import Location, locate
from pytest_nsight.judge.subject_runs import LOOKS, MINIMUM_NEW_RUNS
from pytest_nsight.model.values import RunSummary, Subject
from pytest_nsight.model.verdicts import VerdictKind

SLOWDOWNS = LEVELS[1:]


@dataclass(frozen=True)
class Finding:
    """One slowed case in one resample.

    Attributes:
        subject: the slowed case.
        kind: memory, compute, tiny or chain.
        session: of the new runs.
        length: "short" below 10 us, "long" from 50 us on, "middle" between.
        per_mille: additional work.
        situation: where stored and new runs came from.
        band: the band.
        is_real: whether the work was really done, not multiplied into sound rounds.
        verdict: of the slowed case.
        others: subjects that failed though they were unchanged.
        processes: fresh processes that the check took.
        is_same_group: whether a stored run is of a board of the same group, by the canaries.
        flagged: for each of RULES whether it called the case slower.
    """

    subject: Subject
    kind: str
    session: str
    length: str
    per_mille: int
    situation: Situation
    band: float
    is_real: bool
    verdict: VerdictKind
    others: int
    processes: int
    is_same_group: bool
    flagged: tuple[bool | None, ...]

    @property
    def is_found(self) -> bool:
        """Whether the gate failed the case on time."""
        return self.verdict is VerdictKind.REGRESSION


@dataclass(frozen=True)
class Truth:
    """What additional work really costs a case.

    Attributes:
        subject: the case.
        per_mille: additional work.
        change: of the time, as a ratio less one, mean over sessions.
        error: its standard error.
        runs: slowed runs.
    """

    subject: Subject
    per_mille: int
    change: float
    error: float
    runs: int


def measure_truth(study: Study) -> list[Truth]:
    """Compares slowed and sound runs of the same sessions, between which every run is interleaved."""
    found = []
    for subject, _, position in injectable(study.subjects):
        for level in SLOWDOWNS:
            differences, variances, runs = [], [], 0
            for session in group_by_session(study.injected):
                sides = [
                    [place.log_ns for place in _places(session, subject, position, wanted)] for wanted in (0, level)
                ]
                if min(map(len, sides)) >= 2:
                    differences.append(np.mean(sides[1]) - np.mean(sides[0]))
                    variances.append(sum(np.var(side, ddof=1) / len(side) for side in sides))
                    runs += len(sides[1])
            if differences:
                error = math.sqrt(sum(variances)) / len(differences)
                found.append(Truth(subject, level, math.expm1(np.mean(differences)), error, runs))
    return found


def by_cost(findings: Sequence[Finding], truths: Sequence[Truth]) -> list[Finding]:
    """The injected findings by what the work really cost: the nearest level, if it is within a quarter of it."""
    costs = {(truth.subject, truth.per_mille): 1000 * truth.change for truth in truths}
    found = []
    for finding in findings:
        cost = costs.get((finding.subject, finding.per_mille)) if finding.is_real else None
        if cost is not None and cost > 0:
            nearest = min(SLOWDOWNS, key=lambda level: abs(math.log(cost / level)))
            if abs(cost / nearest - 1) <= 0.25:
                found.append(replace(finding, per_mille=nearest))
    return found


def _places(session: Sequence[PooledRun], subject: Subject, position: int, level: int) -> list[Location]:
    own = [process.summaries[subject] for process in session if level_in(process, position) == level]
    return [place for place in (locate(run, "kernel") for run in own) if isinstance(place, Location)]


def measure_power(bands: Sequence[float], draws: int, seed: int, processes: int, *, is_real: bool) -> list[Finding]:
    """Slows one case at a time, in every situation, at every level and band, in this many random resamples each."""
    tasks: list[Task] = [
        (situation, level, band, draws, seed + number, is_real)
        for number, (situation, level, band) in enumerate(itertools.product(Situation, SLOWDOWNS, bands))
    ]
    return [finding for chunk in spread(_find, tasks, processes) for finding in chunk]


def _find(
    situation: Situation,
    level: int,
    band: float,
    draws: int,
    seed: int,
    is_real: bool,  # noqa: FBT001
) -> list[Finding]:
    study, rng = shared_study(), np.random.default_rng(seed)
    candidates = list(injectable(study.subjects))
    sound = draw_resamples(study.sound, situation, rng)
    policies, findings = study.with_band(band), []
    for _ in range(draws):
        subject, case, position = candidates[int(rng.integers(len(candidates)))]
        if is_real:
            resample = draw_injected(study, situation, subject, position, level, rng)
        else:
            drawn = next(sound, None)
            resample = drawn.change(lambda run: _multiply(run, 1 + level / 1000), subject) if drawn else None
        if resample is None:
            continue
        replayed = replay(resample, policies)
        kinds = {verdict.subject: verdict.kind for verdict in replayed.verdicts}
        findings.append(
            Finding(
                subject,
                case.kind,
                resample.new[0].session,
                _length(resample, subject),
                level,
                situation,
                band,
                is_real,
                kinds[subject],
                sum(kind.fails for other, kind in kinds.items() if other != subject),
                replayed.processes,
                _is_same_group(resample, replayed.board_groups),
                tuple(is_flagged(rule, resample, subject, policies) for rule in RULES),
            )
        )
    return findings


def _length(resample: Resample, subject: Subject) -> str:
    place = locate(resample.stored[0].summaries[subject], "kernel")
    time_ns = math.exp(place.log_ns) if isinstance(place, Location) else math.inf
    return "short" if time_ns < SHORT_NS else "long" if time_ns >= LONG_NS else "middle"


def _is_same_group(resample: Resample, groups: Mapping[str, str]) -> bool:
    known = {groups[process.board] for process in resample.stored if process.board in groups}
    return groups.get(resample.new[0].board) in known


def _multiply(run: RunSummary, factor: float) -> RunSummary:
    return replace(run, rounds={name: tuple(round(ns * factor) for ns in own) for name, own in run.rounds.items()})


def draw_injected(
    study: Study, situation: Situation, slowed: Subject, position: int, level: int, rng: np.random.Generator
) -> Resample | None:
    """A resample whose new runs have one case slowed for real, all others as they were without additional work.

    The runs of a rotating session are taken apart by case: each case's own runs at the level that is asked for.
    Cases share a process without touching each other, so runs put together anew are runs that could have been.

    Returns:
        The resample; None where the data has no sessions for the situation.
    """
    sessions = [runs for runs in group_by_session(study.injected) if len(runs) >= len(LEVELS) * MINIMUM_NEW_RUNS]
    if not sessions:
        return None
    session = sessions[int(rng.integers(len(sessions)))]
    positions = {subject: place for subject, _, place in injectable(study.subjects)}
    is_ab = situation is Situation.SAME_SESSION
    new_columns, stored_columns = {}, {}
    for subject in session[0].summaries:
        wanted = level if subject == slowed else 0
        place = positions.get(subject)
        own = [process for process in session if place is None or level_in(process, place) == wanted]
        own = [own[index] for index in rng.permutation(len(own))]
        if is_ab and subject == slowed:
            sound = [process for process in session if level_in(process, position) == 0]
            stored_columns[subject] = [sound[index] for index in rng.permutation(len(sound))]
        elif is_ab:
            # A sound run stands on one side only.
            stored_columns[subject], own = own[::2], own[1::2]
        new_columns[subject] = own
    new = _weave(new_columns, len(new_columns[slowed]))
    if is_ab:
        return Resample(situation, _weave(stored_columns, len(stored_columns[slowed])), new, is_paired=True)
    groups = list_stored(group_by_session(study.sound), session, situation)
    return Resample(situation, draw_stored(groups, situation, rng), new) if groups else None


def _weave(columns: dict[Subject, list[PooledRun]], rows: int) -> tuple[PooledRun, ...]:
    woven = []
    for index in range(min(rows, LOOKS[-1])):
        summaries = {subject: own[index].summaries[subject] for subject, own in columns.items() if index < len(own)}
        first = next(iter(columns.values()))[0]
        woven.append(PooledRun(f"{first.session}/woven-{index}", first.session, first.board, summaries))
    return tuple(woven)
