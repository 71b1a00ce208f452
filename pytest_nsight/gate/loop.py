"""The loop: plan what to measure, have it measured, absorb what it left behind, until nothing is left to measure.

A live session, a replay and a calibration differ in their source of runs only. No pytest, no files of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from pytest_nsight.gate.absorbing import absorb
from pytest_nsight.gate.identity_records import plan_identities
from pytest_nsight.gate.judging import find_suspects
from pytest_nsight.gate.proofs import choose_timed, prove_identical
from pytest_nsight.gate.state import GateState, PlannedProcess, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.judge.subject_runs import FIRST_PAIRS, LOOKS
from pytest_nsight.protocol.job import OTHER_TREE, Assignment
from pytest_nsight.trace.process_record import MeasuredProcess

CONFIRMED_CASES = 3
"""Cases of a confirming process: about as many as a look finds suspect."""

_PAIRED_CANARY_ROUNDS = 30
"""Where two trees are compared, canaries only show what a run varies by, and the board's limits."""

_WORTH_GUESSING = 5
"""Among this many cases, one is probably a suspect after the first look. Among fewer cases, and in an audit, there
is probably none, and the session would have to wait for the end of processes that it does not need."""


class Source(Protocol):
    """Where runs come from: a machine, a recorded session, or a pool of runs."""

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> Sequence[MeasuredProcess]:
        """Measures cases in a fresh process, or in several side by side; empty if a recording has no more.

        Args:
            assignment: what to measure.
            upcoming: the assignments of the next calls, unless something changes the plan; one without cases may
                come, with cases that are not known yet.
        """

    def close(self) -> None:
        """Ends the processes that were prepared for a further call, because none will come."""


def run_loop(
    state: GateState,
    source: Source,
    load: Callable[[str], StoredRuns],
    watch: Callable[[GateState], bool] = lambda _: True,
) -> GateState:
    """The state after everything is measured that the plan and the looks ask for.

    Args:
        state: to go on from.
        source: where runs come from.
        load: product name of the device -> the runs to compare with; "" before anything was measured.
        watch: called with the state before each process; False ends the loop.

    Raises:
        NsightError: the source cannot go on.
    """
    while True:
        state = plan(state, load(state.device))
        if not state.pending or state.is_interrupted or not watch(state):
            return state
        state = absorb(state, source.execute(state.pending[0].assignment, list_upcoming(state)))


def plan(state: GateState, stored: StoredRuns) -> GateState:
    """The state with the next processes pending; none are pending when all is measured.

    A case is suspect after a look if more runs may change its verdict; only suspects get the runs up to the next
    look. What was pending stays.

    Args:
        state: what is known.
        stored: the runs to compare with.
    """
    if state.pending or state.is_exhausted or state.is_interrupted:
        return state
    if not state.planned_runs:
        if state.plan.has_identity_pass and not state.is_identified and (pending := plan_identities(state.plan)):
            return replace(state, pending=pending)
        state = prove_identical(state, stored)
        return _add_first_look(state, choose_timed(state))
    if state.planned_runs == state.plan.runs and state.plan.confirming:
        return _add_confirming(state)
    next_look = next((look for look in LOOKS if look > state.planned_runs), None)
    if not state.plan.is_judged or next_look is None:
        return state
    suspects = {subject.case for subject in find_suspects(state, stored)}
    cases = [case for case in state.plan.case_ids if case in suspects]
    return _add_runs(state, cases, next_look - state.planned_runs) if cases else state


def list_upcoming(state: GateState) -> tuple[Assignment, ...]:
    """The assignments after the next one, if nothing happens in between, so that processes can get ready for them.

    The last ones have no cases: a look may ask for them, and it is not known for which cases.
    """
    known = tuple(process.assignment for process in state.pending[1:])
    if state.pending and state.pending[0].assignment.identifies:
        # Their findings decide which cases are timed next; some always are, as an audit.
        others = tuple(assignment for assignment in known if assignment.identifies)
        return (*others, *(_pair_up(Assignment(()), 1) if state.plan.is_paired else (Assignment(()),)))
    most = max(state.plan.runs, LOOKS[-1]) if state.plan.is_judged else state.plan.runs
    measured = {case for process in state.pending for case in process.assignment.cases}
    if state.planned_runs >= most or len(state.plan.cases) < _WORTH_GUESSING or state.proven.keys() >= measured:
        return known
    if state.plan.is_paired:
        return (*known, *_pair_up(Assignment(()), state.planned_runs + 1))
    return (*known, Assignment(()), Assignment(()))


def _add_first_look(state: GateState, timed: Sequence[str]) -> GateState:
    if not state.plan.is_paired or state.plan.times_all_identical:
        return _add_runs(state, timed, state.plan.runs)
    # One pair is enough to show whether an audit contradicts the proof, and to check claims on identical cases.
    state = _add_runs(state, timed, 1, audited=[case for case in timed if case in state.proven])
    differing = [case for case in timed if case not in state.proven]
    return _add_runs(state, differing, state.plan.runs - 1) if differing else state


def _add_runs(state: GateState, cases: Sequence[str], runs: int, audited: Sequence[str] = ()) -> GateState:
    first = state.planned_runs + 1
    pending = tuple(
        PlannedProcess(run, replace(assignment, audited=tuple(audited)))
        for run in range(first, first + runs)
        for assignment in _assign(state.plan, cases, run, canaries=_needs_canaries(state, cases, run))
    )
    return replace(state, pending=(*state.pending, *pending), planned_runs=state.planned_runs + runs)


def _add_confirming(state: GateState) -> GateState:
    """The state with processes pending that measure few cases, all cases about equally often."""
    plan, dealt = state.plan, list[tuple[str, ...]]()
    sound = [case for case in plan.case_ids if case not in state.problems]
    while sound and len(dealt) < plan.confirming:
        cases = list(sound)
        random.Random(f"{plan.seed}/confirming {len(dealt)}").shuffle(cases)
        dealt += [tuple(cases[at : at + CONFIRMED_CASES]) for at in range(0, len(cases), CONFIRMED_CASES)]
    pending = tuple(
        PlannedProcess(state.planned_runs + number, Assignment(cases))
        for number, cases in enumerate(dealt[: plan.confirming], 1)
    )
    return replace(state, pending=pending, planned_runs=state.planned_runs + plan.confirming)


def _needs_canaries(state: GateState, cases: Sequence[str], run: int) -> bool:
    """Whether canaries are measured, too.

    They correct nothing if two trees are compared on one board. But they show the board's limits and the noise of a
    run, about which the few differing cases say too little. The first pairs are enough for that.
    """
    return not state.plan.is_paired or (run <= FIRST_PAIRS and not _is_paired_audit(state, cases))


def _is_paired_audit(state: GateState, cases: Sequence[str]) -> bool:
    return state.plan.is_paired and not state.plan.times_all_identical and state.proven.keys() >= set(cases)


def _assign(plan: SessionPlan, cases: Sequence[str], run: int, *, canaries: bool) -> tuple[Assignment, ...]:
    """The assignment of one run, or of a pair; both trees of a pair take the cases in the same order."""
    rounds = _PAIRED_CANARY_ROUNDS if plan.is_paired else None
    assignment = Assignment(tuple(cases), canaries=canaries, canary_rounds=rounds)
    if plan.seed is not None:
        seed, order = random.Random(f"{plan.seed}/{run}").getrandbits(32), list(cases)
        random.Random(seed).shuffle(order)
        order = place_partners_together(order, plan.partners)
        assignment = replace(assignment, cases=tuple(order), seed=seed)
    return _pair_up(assignment, run) if plan.is_paired else (assignment,)


def _pair_up(assignment: Assignment, run: int) -> tuple[Assignment, Assignment]:
    """The assignment for both trees; the tree that goes first alternates (ABBA), so that drift cancels."""
    other = replace(assignment, tree=OTHER_TREE)
    return (other, assignment) if run % 2 else (assignment, other)


def place_partners_together(order: Sequence[str], partners: Mapping[str, str]) -> list[str]:
    """The cases with those that they claim to beat beside them; otherwise the order stays.

    Args:
        order: cases.
        partners: case -> the case that it claims to beat.
    """
    neighbours: dict[str, list[str]] = {case: [] for case in order}
    for case in order:
        partner = partners.get(case)
        if partner in neighbours:
            neighbours[case].append(partner)
            neighbours[partner].append(case)
    placed: dict[str, None] = {}

    def place(case: str) -> None:
        if case not in placed:
            placed[case] = None
            for other in neighbours[case]:
                place(other)

    for case in order:
        place(case)
    return list(placed)
