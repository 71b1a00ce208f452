"""What the identity pass leaves to be timed, and the verdicts on what it does not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_nsight.gate.identity_records import absorb_identities, attach_identities
from pytest_nsight.gate.judging import judge_state, list_notes
from pytest_nsight.gate.loop import run_loop
from pytest_nsight.gate.proofs import (
    AUDITED,
    choose_timed,
    describe_identities,
    join_proofs,
)
from pytest_nsight.gate.state import GateState, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.identity import READING, Identity, LaunchIdentity, MachineCode, make_identity
from pytest_nsight.model.values import Case, Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import VerdictKind
from pytest_nsight.protocol.job import OTHER_TREE, Assignment
from pytest_nsight.protocol.manifest_events import CaseWarning
from pytest_nsight.protocol.phase_reports import PhaseReport
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd
from tests.gate.processes import Machine, make_process
from tests.judge.runs import GPU, make_runs, uses

CASES = tuple(Case(f"t.py::{name}") for name in "abcdefgh")
IDS = tuple(case.id for case in CASES)


def launching(name: str, grid: int = 8) -> Identity:
    return make_identity([LaunchIdentity("kernel", name, MachineCode(name), (grid, 1, 1), (128, 1, 1))])


WARNING = CaseWarning(IDS[0], "UserWarning", "builtins", "mind the gap", "t.py", 3)

SAME = {case: launching(case) for case in IDS}


class IdentifyingMachine(Machine):
    """A machine whose identity pass finds these launches; a case without one has failed in it."""

    def __init__(
        self, here: Mapping[str, Identity], there: Mapping[str, Identity] | None = None, fault: str = ""
    ) -> None:
        super().__init__()
        self._here, self._there, self._fault = here, there or {}, fault
        self.passes: list[Assignment] = []
        self.claims_there = ""

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> tuple[MeasuredProcess, ...]:
        if not assignment.identifies:
            return super().execute(assignment, upcoming)
        self.passes.append(assignment)
        found = self._there if assignment.tree == OTHER_TREE else self._here
        process = make_process(assignment.cases, tree=assignment.tree)
        manifest = replace(
            process.manifest,
            identities=dict(found),
            claims=dict.fromkeys(found, self.claims_there if assignment.tree == OTHER_TREE else ""),
            identity_fault=self._fault,
            warnings=() if assignment.tree else (WARNING,),
        )
        return (replace(process, manifest=manifest, summaries=()),)


def around(ns: float) -> list[float]:
    return [ns * (1 + step / 5000) for step in range(5)]


def stored(identities: Mapping[str, Identity], **runs: Sequence[RunSummary]) -> StoredRuns:
    found = {
        Subject(case): tuple(
            replace(run, identity=identity, recorded="2026-05-04T00:00:00Z", commit="abcdef012345")
            for run in make_runs(around(1000.0), "stored", subject=Subject(case))
        )
        for case, identity in identities.items()
    }
    found.update({Subject(f"t.py::{name}"): tuple(given) for name, given in runs.items()})
    return StoredRuns(found)


def by_subject(runs: Sequence[RunSummary]) -> StoredRuns:
    return StoredRuns({subject: [one for one in runs if one.subject == subject] for subject in map(Subject, IDS)})


def run(machine: Machine, known: StoredRuns, cases: Sequence[Case] = CASES, **plan: object) -> GateState:
    given = {"runs": 1, "has_identity_pass": True, "skips_identical": True, "audit_seed": "s", **plan}
    session = SessionPlan(tuple(cases), **given)  # type: ignore[arg-type]
    return run_loop(GateState(session), machine, lambda _: known)


def timed_by(machine: Machine) -> set[str]:
    return {case for assignment in machine.assignments for case in assignment.cases}


def test_what_is_identical_is_not_timed_but_for_an_audit() -> None:
    machine = IdentifyingMachine(SAME)

    state = run(machine, stored(SAME))

    assert [one.cases for one in machine.passes] == [IDS]
    assert len(timed_by(machine)) == AUDITED
    assert set(state.proven) == set(IDS)
    assert set(state.reports) == set(IDS), "pytest shows the outcome of the identity pass"


def test_the_audit_is_drawn_by_the_seed() -> None:
    def draw(seed: str) -> tuple[str, ...]:
        return choose_timed(GateState(SessionPlan(CASES, 1, audit_seed=seed), proven=dict.fromkeys(IDS, "it")))

    assert draw("one") == draw("one")
    assert len({draw(str(number)) for number in range(20)}) > 5


class ChangingMachine(IdentifyingMachine):
    """Half of its cases take longer in this tree than in the other, and half less long, whatever they launch."""

    def __init__(self, *trees: Mapping[str, Identity], change: float) -> None:
        super().__init__(*trees)
        self._change = change

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> tuple[MeasuredProcess, ...]:
        (process,) = super().execute(assignment, upcoming)
        if assignment.identifies or assignment.tree == OTHER_TREE:
            return (process,)
        slower = tuple(
            make_runs([1000.0 * self._change ** (-1) ** at], "session", subject=one.subject)[0]
            for at, one in enumerate(process.summaries)
        )
        return (replace(process, summaries=slower),)


@pytest.mark.parametrize(("change", "is_again"), [(1.008, False), (1.05, True)])
def test_what_is_audited_is_looked_at_again_only_where_it_contradicts(change: float, is_again: bool) -> None:
    machine = ChangingMachine(SAME, SAME, change=change)

    state = run(machine, StoredRuns(), is_paired=True, is_judged=True)

    assert set(state.proven) == set(IDS)
    assert (state.planned_runs > state.plan.runs) == is_again


def test_what_differs_is_timed_and_counts_not_as_audited() -> None:
    machine = IdentifyingMachine({**SAME, IDS[0]: launching("other")})

    state = run(machine, stored(SAME))

    assert IDS[0] in timed_by(machine)
    assert len(timed_by(machine)) == AUDITED + 1
    assert IDS[0] not in state.proven


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(StoredRuns(), id="nothing-stored"),
        pytest.param(
            StoredRuns({Subject(case): make_runs([1000.0], "s", subject=Subject(case)) for case in IDS}),
            id="no-identity-stored",
        ),
    ],
)
def test_without_a_stored_identity_all_is_timed(known: StoredRuns) -> None:
    machine = IdentifyingMachine(SAME)

    assert not run(machine, known).proven
    assert timed_by(machine) == set(IDS)


def test_only_what_was_saved_last_proves() -> None:
    """A change that was accepted and is taken back is a change."""
    newer = {case: launching("faster") for case in IDS}
    later = [replace(one, session="later", recorded="2026-06-01T00:00:00Z") for one in stored(newer).all]
    both = by_subject([*stored(SAME).all, *later])

    assert not run(IdentifyingMachine(SAME), both).proven
    assert set(run(IdentifyingMachine(newer), both).proven) == set(IDS)


def test_a_session_that_has_launched_differently_in_one_run_proves_nothing() -> None:
    mixed = [replace(one, identity=None) if number % 5 == 4 else one for number, one in enumerate(stored(SAME).all)]

    assert not run(IdentifyingMachine(SAME), by_subject(mixed)).proven


@pytest.mark.parametrize("metric", ["wall", "gap", "launch", "span", "sync", "copy"])
def test_what_the_launches_do_not_decide_is_timed(metric: str) -> None:
    cases = tuple(replace(case, policy=Policy(metric=metric)) for case in CASES)
    machine = IdentifyingMachine(SAME)

    assert not run(machine, stored(SAME), cases).proven


def test_a_case_whose_rounds_differ_is_timed_and_named() -> None:
    machine = IdentifyingMachine({**SAME, IDS[0]: Identity(why_none="its rounds differ: argument 2")})

    state = run(machine, stored(SAME))

    assert IDS[0] in timed_by(machine)
    note = "1 case without an identity (a): its rounds differ: argument 2; nothing is wrong: such cases are timed"
    assert note in describe_identities(state, ())


def test_what_becomes_of_cases_without_an_identity_is_said_once() -> None:
    why = {IDS[0]: Identity(why_none="its rounds differ"), IDS[1]: Identity(why_none="it uses 2 streams")}

    notes = describe_identities(run(IdentifyingMachine({**SAME, **why}), stored(SAME)), ())

    assert [note.endswith("such cases are timed") for note in notes if "without an identity" in note] == [
        False,
        True,
    ]


def test_a_case_without_an_identity_in_the_other_tree_only_is_named_with_the_tree() -> None:
    machine = IdentifyingMachine(SAME, {**SAME, IDS[0]: Identity(why_none="it uses 2 streams")})

    state = run(machine, StoredRuns(), is_paired=True)

    assert IDS[0] in timed_by(machine)
    (note,) = (note for note in describe_identities(state, ()) if "without an identity" in note)
    commit = state.other.short_commit
    assert note.startswith(f"1 case without an identity in {commit} (a): it uses 2 streams; ")


@pytest.mark.parametrize("passes_later", [True, False])
@pytest.mark.parametrize("is_measured", [True, False])
def test_a_test_that_failed_in_the_pass_only_is_named(passes_later: bool, is_measured: bool) -> None:
    failed = PhaseReport(IDS[0], {"outcome": "failed", "when": "call", "longrepr": "E   CUDA out of memory"})
    pass_process = make_process(IDS)
    manifest = replace(
        pass_process.manifest, identities={case: SAME[case] for case in IDS[not is_measured :]}, reports=(failed,)
    )
    plan = SessionPlan(CASES, 1, has_identity_pass=True, skips_identical=True)
    outcome = "passed" if passes_later else "failed"
    state = GateState(plan, reports={case: ({"outcome": outcome, "when": "call"},) for case in IDS})

    state = absorb_identities(state, (replace(pass_process, manifest=manifest, summaries=()),))

    notes = [note for note in describe_identities(state, ()) if "its test failed in the identity pass" in note]
    assert [" (a): " in note and "CUDA out of memory" in note for note in notes] == [True] * passes_later
    assert bool(state.identities[IDS[0]].digest) is is_measured


def test_tests_that_failed_in_the_pass_are_one_note_whatever_they_say() -> None:
    whys = [f"its test failed in the identity pass: {number} MiB are missing" for number in range(3)]
    found = {**SAME, **{case: Identity(why_none=why) for case, why in zip(IDS, whys, strict=False)}}

    notes = describe_identities(run(IdentifyingMachine(found), stored(SAME)), ())

    (note,) = (note for note in notes if "failed in the identity pass" in note)
    assert note.startswith(
        "3 cases without an identity (a, b, c): its test failed in the identity pass: 0 MiB are missing; "
    )


def test_a_pass_that_fails_is_one_note_and_all_is_timed() -> None:
    machine = IdentifyingMachine({}, fault="cuptiSubscribe: refused (39)")

    state = run(machine, stored(SAME))

    assert timed_by(machine) == set(IDS)
    (note,) = (note for note in state.notes if "cuptiSubscribe" in note)
    assert note == (
        "launches were not identified, so these cases are timed: cuptiSubscribe: refused (39) "
        "(--nsight-no-identity leaves the pass out)"
    )


def test_a_save_times_everything_and_stores_what_fits() -> None:
    machine = IdentifyingMachine(SAME)

    state = run(machine, stored(SAME), skips_identical=False)

    assert timed_by(machine) == set(IDS)
    summaries = tuple(replace(one, shapes=uses("k")) for one in state.summaries)
    other = replace(summaries[0], shapes=uses("k", "k"))
    kept = attach_identities(replace(state, summaries=(other, *summaries[1:])))
    assert kept[0].identity is None, "the run has launched other shapes than the identity pass"
    assert [one.identity for one in kept[1:]] == [SAME[one.subject.case] for one in kept[1:]]


def test_what_was_read_in_another_way_is_no_change_and_is_said_once() -> None:
    state, _ = conclude({IDS[0]: 1300.0})
    known = stored({case: replace(launching("otherwise"), reading=READING - 1) for case in IDS})
    timed = replace(state, plan=SessionPlan(CASES, 1, skips_identical=True), proven={})

    verdict = judge_state(timed, known)[0]

    assert not known.has_identities
    assert verdict.kind is VerdictKind.REGRESSION
    assert "launches" not in verdict.sentence
    (note,) = [note for note in list_notes(timed, known) if "another version" in note]
    assert note.startswith(f"what {len(IDS)} stored cases launched was read by another version ")
    assert not any("another version" in note for note in list_notes(state, stored(SAME)))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            {"plan": SessionPlan(CASES, 1, skips_identical=True, times_all_identical=True), "identities": {}},
            id="replay",
        ),
        pytest.param({"plan": SessionPlan(CASES, 1)}, id="no-proofs"),
        pytest.param(
            {
                "plan": SessionPlan(
                    tuple(replace(case, policy=Policy(metric="wall")) for case in CASES), 1, skips_identical=True
                )
            },
            id="time-of-the-host",
        ),
        pytest.param(
            {
                "plan": SessionPlan(CASES, 1, skips_identical=True),
                "identities": {case: replace(one, reading=READING - 1) for case, one in SAME.items()},
            },
            id="replay-of-that-reading",
        ),
    ],
)
def test_of_another_reading_nothing_is_said_where_it_changes_nothing(change: dict[str, Any]) -> None:
    state, _ = conclude({})
    known = stored({case: replace(launching("otherwise"), reading=READING - 1) for case in IDS})

    assert not any("another version" in note for note in list_notes(replace(state, **change), known))


def test_equal_digests_of_two_readings_prove_nothing() -> None:
    older = {case: replace(identity, reading=READING - 1) for case, identity in SAME.items()}

    assert not run(IdentifyingMachine(SAME), stored(older)).proven


def test_a_recorded_session_of_an_older_reading_still_proves_what_it_proved() -> None:
    older = {case: replace(identity, reading=READING - 1) for case, identity in SAME.items()}

    state = run(IdentifyingMachine(older), stored(older))

    assert set(state.proven) == set(IDS)
    assert state.plan.skips_identical
    assert not any("another version" in note for note in list_notes(state, stored(older)))


def test_ranks_are_not_identified() -> None:
    machine = IdentifyingMachine(SAME)

    run(machine, stored(SAME), (replace(CASES[0], ranks=2), *CASES[1:]))
    alone = IdentifyingMachine(SAME)
    run(alone, stored(SAME), (replace(CASES[0], ranks=2),))

    assert machine.passes[0].cases == IDS[1:]
    assert alone.passes == []
    assert timed_by(alone) == {IDS[0]}


def test_of_two_trees_both_are_identified_and_only_what_differs_is_timed_in_both() -> None:
    machine = IdentifyingMachine(SAME, {**SAME, IDS[1]: launching("old")})

    state = run(machine, StoredRuns(), is_paired=True)

    assert [one.tree for one in machine.passes] == [OTHER_TREE, ""]
    assert IDS[1] in timed_by(machine)
    assert set(state.proven) == set(IDS) - {IDS[1]}
    assert set(state.proven.values()) == {"0123456"}


@pytest.mark.parametrize(
    ("there", "canaries"),
    [(SAME, [False, False]), ({**SAME, IDS[1]: launching("old")}, [True] * 4 + [False] * 2)],
)
def test_of_two_trees_the_first_two_pairs_have_canaries_and_an_audit_none(
    there: Mapping[str, Identity], canaries: list[bool]
) -> None:
    machine = IdentifyingMachine(SAME, there)

    run(machine, StoredRuns(), is_paired=True, runs=3)

    timed = [one for one in machine.assignments if not one.identifies]
    assert [one.canaries for one in timed] == canaries, "of an audit, one pair shows whether it contradicts"
    assert {one.canary_rounds for one in timed} == {30}


def test_of_two_trees_what_is_identical_is_timed_in_one_pair() -> None:
    machine = IdentifyingMachine(SAME, {**SAME, IDS[0]: launching("old")})

    state = run(machine, StoredRuns(), claiming(), is_paired=True, runs=3)

    assert IDS[1] in state.proven, "the case that it claims to beat"
    timed = [one for one in machine.assignments if not one.identifies]
    first, second, *later = [set(one.cases) for one in timed]
    assert first == second
    assert {IDS[0], IDS[1]} < first, "and an audit"
    assert later == [{IDS[0]}] * 4
    assert [set(one.audited) for one in timed] == [first - {IDS[0]}] * 2 + [set()] * 4


def claiming(**policy: object) -> tuple[Case, ...]:
    first = replace(CASES[0], policy=Policy(faster_than=IDS[1], **policy))  # type: ignore[arg-type]
    return (first, *CASES[1:])


def gpu_runs(name: str, ns: float, identity: Identity) -> tuple[RunSummary, ...]:
    runs = make_runs(around(ns), "stored", subject=Subject(f"t.py::{name}"), board="GPU-a", shapes=uses(name))
    return tuple(replace(one, identity=identity) for one in runs)


@pytest.mark.parametrize(("by", "stands"), [(1.5, True), (2.5, False)])
def test_a_claim_stands_where_it_holds_of_the_stored_runs(by: float, stands: bool) -> None:
    known = stored(SAME, a=gpu_runs("a", 500.0, SAME[IDS[0]]), b=gpu_runs("b", 1000.0, SAME[IDS[1]]))
    machine = IdentifyingMachine(SAME)

    state = run(machine, known, claiming(by=by))

    assert (IDS[0] in state.proven) == stands
    if not stands:
        assert {IDS[0], IDS[1]} <= timed_by(machine)


@pytest.mark.parametrize(("there", "stands"), [("", True), ("launches=7", False)])
def test_of_two_trees_a_claim_that_is_new_is_timed(there: str, stands: bool) -> None:
    machine = IdentifyingMachine(SAME, SAME)
    machine.claims_there = there

    state = run(machine, StoredRuns(), claiming(), is_paired=True)

    assert (IDS[0] in state.proven) == stands


def test_warnings_of_the_identity_pass_are_shown() -> None:
    state = run(IdentifyingMachine(SAME), stored(SAME))

    assert state.warnings[IDS[0]] == (WARNING,)


def test_a_replay_judges_all_that_was_recorded_whatever_the_draw() -> None:
    machine = IdentifyingMachine(SAME)

    state = run(machine, stored(SAME), times_all_identical=True)

    assert timed_by(machine) == set(IDS)
    assert set(state.proven) == set(IDS)


def test_a_claim_about_a_case_that_differs_is_timed_with_it() -> None:
    machine = IdentifyingMachine({**SAME, IDS[1]: launching("other")})

    run(machine, stored(SAME), claiming())

    assert {IDS[0], IDS[1]} <= timed_by(machine)


def conclude(times_ns: Mapping[str, float], *, board: str = GPU) -> tuple[GateState, StoredRuns]:
    """A state in which all cases are proven and these were timed, in five runs each."""
    summaries = tuple(
        one
        for case, ns in times_ns.items()
        for one in make_runs(around(ns), "new", subject=Subject(case), board=board)
    )
    reports = dict.fromkeys(IDS, ({"outcome": "passed", "when": "call"},))
    state = GateState(
        SessionPlan(CASES, 1),
        identities=SAME,
        proven=dict.fromkeys(IDS, "its baseline of 2026-05-04"),
        summaries=summaries,
        reports=reports,
    )
    return state, stored(SAME)


def test_an_audit_that_agrees_leaves_the_proof_and_says_what_it_saw() -> None:
    state, known = conclude({IDS[0]: 1000.0})

    timed = judge_state(state, known)
    verdicts = join_proofs(state, known, timed)

    assert [one.subject.case for one in verdicts] == list(IDS)
    assert {one.kind for one in verdicts} == {VerdictKind.IDENTICAL}
    assert verdicts[0].sentence.startswith(
        "a: the same machine code, launch shapes and arguments as its baseline of 2026-05-04 (1 launch); "
        "timed as an audit, UNCHANGED: kernel time"
    )
    assert verdicts[0].comparison is not None
    assert verdicts[1].sentence.endswith("; not timed")
    assert not verdicts[1].kind.fails_strict
    assert describe_identities(state, timed) == (
        "audit: 1 identical case timed all the same: 1 UNCHANGED, change 0 %",
    )


def test_an_audit_of_too_few_runs_reports_its_times_and_asks_for_nothing() -> None:
    state, _ = conclude({IDS[0]: 1002.0})
    state = replace(state, summaries=state.summaries[:1])
    one = make_runs(around(1000.0), "stored", subject=Subject(IDS[0]))[:1]
    few = StoredRuns({Subject(IDS[0]): [replace(run, identity=SAME[IDS[0]], commit="a1b2c3") for run in one]})

    timed = judge_state(state, few)
    (first, *_) = join_proofs(state, few, timed)

    assert timed[0].kind is VerdictKind.INCONCLUSIVE
    assert first.kind is VerdictKind.IDENTICAL
    assert re.search(
        r"timed as an audit: kernel time \S+ -> \S+ (us|ns) \(\+0\.\d+ %, 1\+1 runs\)$", first.sentence
    )
    (note,) = describe_identities(state, timed)
    assert re.fullmatch(r"audit: 1 identical case timed all the same: change \+0\.\d+ %", note)


def test_an_audit_that_contradicts_keeps_its_verdict_and_is_loud() -> None:
    state, known = conclude({IDS[0]: 1300.0})

    timed = judge_state(state, known)

    assert join_proofs(state, known, timed)[0].kind is VerdictKind.REGRESSION
    (_, loud) = describe_identities(state, timed)
    assert loud.startswith("IDENTITY AND TIME CONTRADICT EACH OTHER: ")
    assert "REGRESSION by time: a: kernel time" in loud


@pytest.mark.parametrize("ns", [925.0, 1080.0])
def test_on_a_board_that_has_stored_nothing_a_change_that_boards_explain_contradicts_nothing(ns: float) -> None:
    state, known = conclude({IDS[0]: ns}, board="GPU-b")

    timed = judge_state(state, known)

    (first, *_) = join_proofs(state, known, timed)
    assert first.kind is VerdictKind.IDENTICAL
    (note,) = describe_identities(state, timed)
    assert note.startswith("audit: 1 identical case timed all the same: 1 ")
    assert note.endswith("; no stored run is of this board, and boards alone may differ by up to 10 %")


def test_on_a_board_that_has_stored_nothing_an_audit_without_a_change_says_nothing_of_boards() -> None:
    state, known = conclude({IDS[0]: 1001.0}, board="GPU-b")

    (note,) = describe_identities(state, judge_state(state, known))

    assert note.endswith("change +0.10 %")


def test_on_a_board_that_has_stored_nothing_a_change_that_boards_do_not_explain_contradicts() -> None:
    state, known = conclude({IDS[0]: 1300.0}, board="GPU-b")

    timed = judge_state(state, known)

    assert join_proofs(state, known, timed)[0].kind is VerdictKind.REGRESSION
    (audit, loud) = describe_identities(state, timed)
    assert "boards" not in audit
    assert loud.startswith("IDENTITY AND TIME CONTRADICT EACH OTHER: ")


def test_a_claim_that_fails_in_the_audit_contradicts_nothing_and_fails_no_test() -> None:
    state, known = conclude({IDS[0]: 1000.0})
    claiming_state = replace(state, plan=SessionPlan((Case(IDS[0], Policy(max_time_ns=1)), *CASES[1:]), 1))

    timed = judge_state(claiming_state, known)

    (first, *_) = join_proofs(claiming_state, known, timed)
    assert first.kind is VerdictKind.IDENTICAL
    assert "timed as an audit, UNCHANGED: " in first.sentence


def test_a_claim_hides_no_time_that_contradicts() -> None:
    state, known = conclude({IDS[0]: 700.0})
    claiming_state = replace(state, plan=SessionPlan((Case(IDS[0], Policy(max_time_ns=1)), *CASES[1:]), 1))

    timed = judge_state(claiming_state, known)

    assert join_proofs(claiming_state, known, timed)[0].kind is VerdictKind.IMPROVEMENT
    assert describe_identities(claiming_state, timed)[1].startswith("IDENTITY AND TIME CONTRADICT EACH OTHER: ")


def test_a_case_that_fails_in_the_audit_has_no_verdict() -> None:
    state, known = conclude({})
    failing = replace(state, reports={**state.reports, IDS[0]: ({"outcome": "failed", "when": "call"},)})

    assert [one.subject.case for one in join_proofs(failing, known, judge_state(failing, known))] == list(IDS[1:])


def test_the_verdict_on_what_differs_names_the_cause() -> None:
    state, known = conclude({IDS[0]: 1300.0})
    now = make_identity([LaunchIdentity("kernel", IDS[0], MachineCode("new", 251, 48), (8, 1, 1), (128, 1, 1))])
    before = make_identity([LaunchIdentity("kernel", IDS[0], MachineCode("old", 214, 39), (8, 1, 1), (128, 1, 1))])
    known = stored({**SAME, IDS[0]: before})

    (verdict,) = judge_state(replace(state, proven={}, identities={**SAME, IDS[0]: now}), known)

    assert verdict.kind is VerdictKind.REGRESSION
    assert "; machine code changed: registers 39 -> 48, instructions 214 -> 251" in verdict.sentence


def test_an_interrupt_in_the_pass_ends_the_session() -> None:
    class Interrupted(IdentifyingMachine):
        def execute(
            self, assignment: Assignment, upcoming: Sequence[Assignment] = ()
        ) -> tuple[MeasuredProcess, ...]:
            (process,) = super().execute(assignment, upcoming)
            return (replace(process, end=ProcessEnd.INTERRUPTED),)

    machine = Interrupted(SAME)
    state = run(machine, stored(SAME))

    assert state.is_interrupted
    assert machine.assignments == []


def test_cases_whose_stored_runs_have_no_identity_are_named() -> None:
    """In one of five runs an autotuner has chosen otherwise than in the identity pass."""
    known = stored(SAME)
    runs = [replace(run, identity=None) if run.run == "stored-2" else run for run in known.all]
    state = run(IdentifyingMachine(SAME), by_subject(runs))

    (note,) = (note for note in list_notes(state, by_subject(runs)) if "no identity" in note)

    names = ", ".join("abcdefgh")
    assert note.startswith(f"stored runs of 8 cases have no identity ({names}), so these are timed: ")
    assert not any("no identity" in note for note in list_notes(state, known))
