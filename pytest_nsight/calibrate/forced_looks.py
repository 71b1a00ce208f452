"""Forced looks: checks of unchanged code in which random cases go through all looks.

A resample of whole runs gives a suspect further runs of the whole suite. The live gate gives it runs of confirming
processes, which measure few cases, and short kernels may take another time there. That takes sessions which hold,
beside their whole runs,

- confirming runs: those of processes that measured a few random cases, canaries included, and recorded how many
  (`RunSummary.cases`), which older pools lack;
- at least 8 of them for each case that is to be forced, in the sessions that are checked;
- whole runs in the sessions that are stored.

A forced case is judged on 9 new runs, one of the suite and 8 confirming ones; the others on the one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import not_

import numpy as np

from pytest_nsight.baselines.comparability import find_comparable
from pytest_nsight.calibrate.false_alarms import Rate, bootstrap_sessions
from pytest_nsight.calibrate.pool import PooledRun
from pytest_nsight.calibrate.resampling import (
    STORED_RUNS,
    Situation,
    draw_stored,
    group_by_session,
    list_stored,
)
from pytest_nsight.gate.loop import CONFIRMED_CASES
from pytest_nsight.judge.judge import SubjectRuns, judge
from pytest_nsight.judge.subject_runs import LOOKS
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.values import Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import Verdict, VerdictKind

CONFIRMING = LOOKS[-1] - 1
FORCED = 3
"""Cases of a check that go through all looks."""


@dataclass(frozen=True)
class ForcedLooks:
    """Verdicts on forced cases of unchanged code in one situation.

    Attributes:
        situation: where stored and new runs came from.
        suites: checks in which any case failed.
        by_session: 95 % interval of that rate, by resampling sessions; None where there is too little to resample.
        kinds: whole power of two, of the duration in us, below a case's time -> verdicts of its forced cases.
        failed: case -> checks in which it failed.
    """

    situation: Situation
    suites: Rate
    by_session: tuple[float, float] | None
    kinds: Mapping[int, Counter[VerdictKind]]
    failed: Mapping[Subject, int]


@dataclass(frozen=True)
class _CheckedSession:
    """A session that can be checked.

    Attributes:
        whole: its runs of the whole suite.
        confirming: case or part -> its confirming runs; canaries have theirs of all confirming processes.
    """

    whole: Sequence[PooledRun]
    confirming: Mapping[Subject, Sequence[RunSummary]]

    @property
    def forceable(self) -> list[Subject]:
        """Subjects with enough confirming runs, canaries apart."""
        enough = (subject for subject, runs in self.confirming.items() if len(runs) >= CONFIRMING)
        return sorted(subject for subject in enough if not subject.is_canary)


def part_confirming(summaries: Iterable[RunSummary]) -> tuple[list[RunSummary], list[RunSummary]]:
    """The runs of the whole suite, and the confirming ones: few cases beside the canaries."""
    runs = list(summaries)
    canaries = Counter(run.run for run in runs if run.subject.is_canary)
    # A process counts its canaries among its cases.
    cases = [run.cases - canaries[run.run] for run in runs]
    largest: Counter[str] = Counter()
    for run, number in zip(runs, cases, strict=True):
        largest[run.session] = max(largest[run.session], number)
    confirming = [
        run.cases > 0 and number <= CONFIRMED_CASES < largest[run.session]
        for run, number in zip(runs, cases, strict=True)
    ]
    return list(compress(runs, map(not_, confirming))), list(compress(runs, confirming))


def force_looks(
    whole: Sequence[PooledRun],
    confirming: Sequence[RunSummary],
    policies: Mapping[str, Policy],
    situation: Situation,
    checks: int,
    rng: np.random.Generator,
    *,
    stored: int = STORED_RUNS,
) -> ForcedLooks | None:
    """Judges checks in which random cases go through all looks; None where there are no runs for it.

    Args:
        whole: runs of the whole suite.
        confirming: runs of processes that measured few cases.
        policies: case -> what its verdict must obey; cases that are not in it get the default.
        situation: where stored and new runs come from; not one session.
        checks: how many.
        rng: chooses them.
        stored: number of stored runs.
    """
    if situation is Situation.SAME_SESSION:
        return None
    known = group_by_session(whole)
    candidates = [
        (session, groups)
        for session in _list_sessions(known, confirming)
        if (groups := list_stored(known, session.whole, situation, stored))
    ]
    if not candidates:
        return None
    hits, sessions = [], []
    kinds: dict[int, Counter[VerdictKind]] = {}
    failed: Counter[Subject] = Counter()
    for _ in range(checks):
        session, groups = candidates[int(rng.integers(len(candidates)))]
        saved = draw_stored(groups, situation, rng, stored)
        forced = [session.forceable[index] for index in rng.permutation(len(session.forceable))[:FORCED]]
        verdicts = _check(session, saved, forced, policies, rng)
        hits.append(any(verdict.kind.fails for verdict in verdicts))
        sessions.append(tuple(dict.fromkeys(run.session for run in (*saved, session.whole[0]))))
        failed.update(verdict.subject for verdict in verdicts if verdict.kind.fails)
        for verdict in verdicts:
            if verdict.subject in forced:
                octave = int(math.log2(max((verdict.now_ns or 0.0) / 1000, 1.0)))
                kinds.setdefault(octave, Counter())[verdict.kind] += 1
    return ForcedLooks(
        situation, Rate(sum(hits), len(hits)), bootstrap_sessions(hits, sessions, rng), kinds, failed
    )


def _list_sessions(known: Iterable[Sequence[PooledRun]], confirming: Sequence[RunSummary]) -> list[_CheckedSession]:
    found = []
    for whole in known:
        own: dict[Subject, list[RunSummary]] = {}
        for run in confirming:
            if (run.board, run.session) == (whole[0].board, whole[0].session):
                own.setdefault(run.subject, []).append(run)
        session = _CheckedSession(whole, own)
        if session.forceable:
            found.append(session)
    return found


def _check(
    session: _CheckedSession,
    stored: Sequence[PooledRun],
    forced: Sequence[Subject],
    policies: Mapping[str, Policy],
    rng: np.random.Generator,
) -> tuple[Verdict, ...]:
    """The verdicts on all cases: forced ones on a whole run and 8 confirming ones, the others on the whole run."""
    first = session.whole[int(rng.integers(len(session.whole)))]

    def gather(subject: Subject) -> SubjectRuns:
        new = [first.summaries[subject]]
        if subject in forced or subject.is_canary:
            own = session.confirming.get(subject, ())
            new += [own[index] for index in rng.permutation(len(own))[:CONFIRMING]]
        saved = [run.summaries[subject] for run in stored if subject in run.summaries]
        baseline = find_comparable(saved, new[-1].environment)
        policy = policies.get(subject.case, Policy())
        return SubjectRuns(subject, policy, baseline.runs, tuple(new), incomparable=baseline.why_none)

    gathered = [gather(subject) for subject in first.summaries]
    cases = [one for one in gathered if not one.subject.is_canary]
    return judge(cases, family=family, canaries=[one for one in gathered if one.subject.is_canary])
