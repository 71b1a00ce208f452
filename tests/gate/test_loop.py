"""Which process measures what, in which order, and what is announced before it is due."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace

import pytest

from pytest_nsight.gate.judging import judge_state
from pytest_nsight.gate.loop import list_upcoming, place_partners_together, plan, run_loop
from pytest_nsight.gate.state import GateState, PlannedProcess, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.values import Case, Policy
from pytest_nsight.protocol.job import OTHER_TREE, THIS_TREE, Assignment
from tests.gate.processes import Machine

CASES = (Case("t.py::a"), Case("t.py::b"), Case("t.py::c"))
MANY = tuple(Case(f"t.py::{number}") for number in range(5))


def run(machine: Machine, session: SessionPlan) -> GateState:
    return run_loop(GateState(session), machine, lambda _: StoredRuns())


def test_trees_alternate_abba_and_a_pair_shares_one_order() -> None:
    machine = Machine()

    run(machine, SessionPlan(CASES, 5, is_paired=True, seed="s"))

    other, this = OTHER_TREE, THIS_TREE
    expected = [other, this, this, other, other, this, this, other, other, this]
    assert [assignment.tree for assignment in machine.assignments] == expected
    pairs = list(zip(machine.assignments[::2], machine.assignments[1::2], strict=True))
    assert all(one.cases == two.cases and one.seed == two.seed for one, two in pairs)
    assert len({one.seed for one, _ in pairs}) == 5


def test_a_seed_shuffles_each_run_anew_and_none_keeps_the_order() -> None:
    shuffled, kept = Machine(), Machine()

    run(shuffled, SessionPlan(MANY, 6, seed="s"))
    run(kept, SessionPlan(MANY, 2))

    assert len({assignment.cases for assignment in shuffled.assignments}) > 1
    assert {frozenset(assignment.cases) for assignment in shuffled.assignments} == {frozenset(c.id for c in MANY)}
    assert [assignment.cases for assignment in kept.assignments] == [tuple(case.id for case in MANY)] * 2


def test_what_the_other_tree_lacks_is_measured_in_one_pair_only() -> None:
    machine = Machine(missing=["t.py::b"])

    state = run(machine, SessionPlan(CASES, 3, is_paired=True))

    assert [len(assignment.cases) for assignment in machine.assignments] == [3, 3, 2, 2, 2, 2]
    assert all("t.py::b" not in assignment.cases for assignment in machine.assignments[2:])
    assert state.other.absent["t.py::b"] == "not in 0123456"


def test_confirming_processes_follow_all_runs_and_measure_every_case_about_equally_often() -> None:
    machine = Machine()
    session = SessionPlan(MANY, 2, seed="s", confirming=7)

    run(machine, session)

    whole, confirming = machine.assignments[:2], machine.assignments[2:]
    assert {len(assignment.cases) for assignment in whole} == {len(MANY)}
    assert [len(assignment.cases) for assignment in confirming] == [3, 2, 3, 2, 3, 2, 3]
    times = Counter(case for assignment in confirming for case in assignment.cases)
    assert set(times.values()) == {3, 4}
    assert len({assignment.cases for assignment in confirming}) > 4, "at random"


def test_confirming_processes_measure_no_case_that_is_known_to_fail() -> None:
    machine = Machine(crashing=["t.py::3"])
    none_is_left = Machine(crashing=["t.py::a"])

    run(machine, SessionPlan(MANY, 2, seed="s", confirming=6))
    run(none_is_left, SessionPlan(CASES[:1], 1, seed="s", confirming=2))

    confirming = [one.cases for one in machine.assignments[-6:]]
    assert sorted(map(len, confirming)) == [1, 1, 1, 3, 3, 3]
    assert "t.py::3" not in {case for cases in confirming for case in cases}
    assert {one.cases for one in none_is_left.assignments} == {("t.py::a",)}


def test_what_comes_next_is_announced() -> None:
    machine = Machine()

    run(machine, SessionPlan(CASES, 3, seed="s"))

    assert [list(one) for one in machine.announced] == [machine.assignments[1:], machine.assignments[2:], []]


def test_what_the_other_tree_lacks_is_not_announced_beyond_the_first_pair() -> None:
    machine = Machine(missing=["t.py::b"])

    run(machine, SessionPlan(CASES, 2, is_paired=True))

    # What is announced as the next one is the next one: a process may have begun with it.
    assert [one[0] for one in machine.announced[:-1]] == machine.assignments[1:]


def test_what_a_look_may_ask_for_is_announced_without_cases() -> None:
    unknown, other = Assignment(()), Assignment((), tree=OTHER_TREE)
    machine = Machine()
    run(machine, SessionPlan(MANY, 2, is_judged=True))
    assert [list(one) for one in machine.announced] == [
        [machine.assignments[1], unknown, unknown],
        [unknown, unknown],
    ]

    machine = Machine()
    run(machine, SessionPlan(MANY, 3, is_judged=True, is_paired=True))
    assert list(machine.announced[0]) == [*machine.assignments[1:6], unknown, other]

    machine = Machine()
    run(machine, SessionPlan(MANY, 9, is_judged=True))
    assert machine.announced[-1] == ()


def test_a_process_that_probably_nobody_needs_is_not_announced() -> None:
    machine = Machine()

    run(machine, SessionPlan(CASES, 1, is_judged=True))

    assert machine.announced == [()]


def test_no_process_gets_ready_for_suspects_among_audited_cases() -> None:
    ids = tuple(case.id for case in MANY)
    process = PlannedProcess(1, Assignment(ids))
    state = GateState(SessionPlan(MANY, 1, is_judged=True), pending=(process,), planned_runs=1)

    assert list_upcoming(replace(state, proven=dict.fromkeys(ids, "it"))) == ()
    assert list_upcoming(replace(state, proven=dict.fromkeys(ids[1:], "it"))) == (Assignment(()), Assignment(()))


def test_nothing_is_planned_while_something_is_pending() -> None:
    state = plan(GateState(SessionPlan(CASES, 2)), StoredRuns())

    assert plan(state, StoredRuns()) is state
    assert [process.run for process in state.pending] == [1, 2]
    assert list_upcoming(state) == (state.pending[1].assignment,)


def test_a_recording_that_has_no_more_ends_the_loop() -> None:
    machine = Machine(most=2)

    state = run(machine, SessionPlan(CASES, 5))

    assert len(machine.assignments) == 2
    assert state.is_exhausted
    assert len(state.accepted) == 2 * len(CASES)


@pytest.mark.parametrize("is_paired", [False, True])
def test_a_state_on_disk_goes_on_as_the_one_in_memory(is_paired: bool) -> None:
    session = SessionPlan(CASES, 3, is_paired=is_paired, seed="s")
    halfway: list[bytes] = []

    def keep(state: GateState) -> bool:
        halfway.append(pickle.dumps(state))
        return True

    whole = run_loop(GateState(session), Machine(), lambda _: StoredRuns(), keep)
    resumed = run_loop(pickle.loads(halfway[2]), Machine(), lambda _: StoredRuns())

    assert resumed == whole
    assert judge_state(resumed, StoredRuns()) == judge_state(whole, StoredRuns())


def test_a_case_and_the_one_that_it_claims_to_beat_are_neighbours() -> None:
    claiming = replace(CASES[0], policy=Policy(faster_than="t.py::c"))
    session = SessionPlan((claiming, *CASES[1:]), 20, seed="s")
    machine = Machine()

    run(machine, session)

    for assignment in machine.assignments:
        places = [assignment.cases.index(case) for case in ("t.py::a", "t.py::c")]
        assert abs(places[0] - places[1]) == 1
    assert place_partners_together(["a", "b", "c"], {}) == ["a", "b", "c"]
