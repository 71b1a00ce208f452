"""The gate's loop over one resample of a pool: what it says, and what it would have measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_nsight.calibrate.pool import PooledRun
from pytest_nsight.calibrate.resampling import Resample
from pytest_nsight.gate.judging import find_groups_of_boards, judge_state
from pytest_nsight.gate.loop import run_loop
from pytest_nsight.gate.state import GateState, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.values import Case, Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import Verdict
from pytest_nsight.protocol.job import OTHER_TREE, THIS_TREE, Assignment
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.phase_reports import PhaseReport
from pytest_nsight.trace.process_record import MeasuredProcess

_COMMIT = "resampled"
_PASSED = {"outcome": "passed"}


@dataclass(frozen=True, slots=True)
class Replay:
    """What the gate says of a resample.

    Attributes:
        verdicts: one per subject, canaries apart.
        runs: subject -> runs that were measured, another tree's included.
        processes: fresh processes that were started for them.
        board_groups: board -> its group, as far as canaries show.
    """

    verdicts: tuple[Verdict, ...]
    runs: Mapping[Subject, int]
    processes: int
    board_groups: Mapping[str, str]


def replay(
    resample: Resample, policies: Mapping[str, Policy], *, fixed: int | None = None, is_strict: bool = False
) -> Replay:
    """Judges the new runs of a resample against its stored ones.

    Args:
        resample: what was saved and what is checked.
        policies: case -> what its verdict must obey; cases that are not in it get the default.
        fixed: this many new runs of every subject and no looks; None for the looks of the live gate.
        is_strict: whether cases that more runs may settle get them, too, as under --nsight-strict.
    """
    subjects = [subject for subject in resample.new[0].summaries if not subject.is_canary]
    cases = dict.fromkeys(subject.case for subject in subjects)
    plan = SessionPlan(
        cases=tuple(Case(case, policies.get(case, Policy())) for case in cases),
        runs=fixed or resample.first_look,
        is_judged=fixed is None,
        is_paired=resample.is_paired,
        reruns_inconclusive=is_strict,
    )
    source, stored = _PoolSource(resample), StoredRuns(_gather([] if resample.is_paired else resample.stored))
    state = run_loop(GateState(plan), source, lambda _: stored)
    trees = 2 if resample.is_paired else 1
    return Replay(
        judge_state(state, stored),
        {subject: trees * source.runs_of(subject.case) for subject in subjects},
        trees * source.processes,
        find_groups_of_boards(state, stored),
    )


class _PoolSource:
    """Hands out the runs of a resample: each case its own next one, so that none is left out."""

    def __init__(self, resample: Resample) -> None:
        self._runs = {THIS_TREE: resample.new, OTHER_TREE: resample.stored}
        self._taken: dict[tuple[str, str], int] = {}
        self._processes = {THIS_TREE: 0, OTHER_TREE: 0}

    @property
    def processes(self) -> int:
        """Processes of this tree that were asked for."""
        return self._processes[THIS_TREE]

    def runs_of(self, case: str) -> int:
        """Runs of a case that were asked for."""
        return self._taken.get((THIS_TREE, case), 0)

    def execute(
        self,
        assignment: Assignment,
        upcoming: Sequence[Assignment] = (),  # noqa: ARG002 - nothing has to get ready
    ) -> tuple[MeasuredProcess, ...]:
        """One process of the pool, put together case by case; none where it has no more."""
        tree = assignment.tree
        runs, number = self._runs[tree], self._processes[tree]
        if number >= len(runs):
            return ()
        self._processes[tree] += 1
        canaries = runs[number].summaries if assignment.canaries else {}
        summaries = [one for subject, one in canaries.items() if subject.is_canary]
        for case in assignment.cases:
            taken = self._taken.get((tree, case), 0)
            self._taken[tree, case] = taken + 1
            summaries += _of_case(runs[taken], case)
        return (MeasuredProcess(_make_manifest(tree, number, summaries), tuple(summaries)),)

    def close(self) -> None:
        """Does nothing: nothing was prepared."""


def _of_case(run: PooledRun, case: str) -> list[RunSummary]:
    # Runs that were put together case by case may lack some.
    return [one for subject, one in run.summaries.items() if subject.case == case]


def _make_manifest(tree: str, number: int, summaries: Sequence[RunSummary]) -> Manifest:
    """The account of a worker in which every case passed."""
    cases = tuple(dict.fromkeys(summary.subject.case for summary in summaries))
    return Manifest(
        run=f"{tree or 'this'}/{number}",
        session="",
        recorded="",
        commit=_COMMIT,
        pid=0,
        device="",
        board="",
        environment={},
        started=cases,
        ended=cases,
        rounds=(),
        reports=tuple(PhaseReport(case, dict(_PASSED)) for case in cases),
        faults=(),
        exit_code=0,
        tree=tree,
    )


def _gather(runs: Sequence[PooledRun]) -> dict[Subject, list[RunSummary]]:
    gathered: dict[Subject, list[RunSummary]] = {}
    for run in runs:
        for subject, summary in run.summaries.items():
            gathered.setdefault(subject, []).append(summary)
    return gathered
