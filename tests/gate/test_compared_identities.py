"""Parts of a changed case that launch the same as before, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_nsight.gate.compared_identities import prove_parts
from pytest_nsight.gate.judging import find_suspects, judge_state
from pytest_nsight.gate.other_tree import OtherTree
from pytest_nsight.gate.proofs import join_proofs
from pytest_nsight.gate.state import GateState, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.identity import Identity, LaunchIdentity, MachineCode, make_identity
from pytest_nsight.model.values import Case, Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import Verdict, VerdictKind
from tests.judge.runs import make_runs

STEP = Case("t.py::step", Policy(band=0.01))
WHOLE, FORWARD, OPTIMIZER = Subject(STEP.id), Subject(STEP.id, "forward"), Subject(STEP.id, "optimizer")
BASELINE = "the same machine code, launch shapes and arguments as its baseline of 2026-05-04 (1 launch)"


def launch(name: str, part: str, code: str = "", kind: str = "kernel") -> LaunchIdentity:
    return LaunchIdentity(kind, name, MachineCode(code or name), (8, 1, 1), (128, 1, 1), part=part)


def step(forward: str, *more: LaunchIdentity) -> Identity:
    return make_identity([launch("rotary", "forward", forward), launch("adam", "optimizer"), *more])


def runs(
    subject: Subject, times_us: Sequence[float], session: str, identity: Identity | None = None
) -> list[RunSummary]:
    made = make_runs([1000 * us for us in times_us], session, subject=subject)
    stored = identity if not subject.part else None
    return [replace(run, identity=stored, recorded="2026-05-04T00:00:00Z") for run in made]


def compare(
    now: Identity, before: Identity, *, optimizer_us: Sequence[float], case: Case = STEP
) -> tuple[GateState, StoredRuns]:
    """A state in which the whole case and its two parts were timed, and their baseline."""
    stored = {
        subject: runs(subject, [1000.0, 1001.0, 999.0, 1000.5, 999.5], "stored", before)
        for subject in (WHOLE, FORWARD, OPTIMIZER)
    }
    measured = {WHOLE: [1000.0], FORWARD: [1000.0], OPTIMIZER: optimizer_us}
    passed = {case.id: ({"outcome": "passed", "when": "call"},)}
    state = GateState(
        SessionPlan((case,), 1, skips_identical=True),
        identities={case.id: now},
        identity_reports=passed,
        reports=passed,
        summaries=tuple(run for subject, times in measured.items() for run in runs(subject, times, "new")),
    )
    return state, StoredRuns(stored)


def decide(state: GateState, stored: StoredRuns) -> dict[Subject, Verdict]:
    return {one.subject: one for one in join_proofs(state, stored, judge_state(state, stored))}


def test_a_part_that_launches_the_same_is_identical_where_another_has_changed() -> None:
    verdicts = decide(*compare(step("new"), step("old"), optimizer_us=[1004.0]))

    assert verdicts[OPTIMIZER].kind is VerdictKind.IDENTICAL
    assert verdicts[OPTIMIZER].sentence.startswith(f"step/optimizer: {BASELINE}; timed with its case, UNCHANGED: ")
    assert "machine code of" not in verdicts[OPTIMIZER].sentence
    assert verdicts[OPTIMIZER].comparison is not None
    assert verdicts[WHOLE].kind is verdicts[FORWARD].kind is VerdictKind.UNCHANGED
    assert "machine code of rotary changed" in verdicts[FORWARD].sentence


def test_noise_of_such_a_part_asks_for_no_further_runs() -> None:
    assert find_suspects(*compare(step("new"), step("old"), optimizer_us=[1009.0])) == ()


def test_noise_of_a_part_that_has_changed_asks_for_further_runs() -> None:
    changed = make_identity([launch("rotary", "forward"), launch("adam", "optimizer", "new")])
    state, stored = compare(changed, step("rotary"), optimizer_us=[1009.0])

    assert find_suspects(state, stored) == (OPTIMIZER,)


def test_a_part_that_got_slower_all_the_same_is_measured_again_and_says_that_its_launches_are_the_same() -> None:
    state, stored = compare(step("new"), step("old"), optimizer_us=[1100.0])
    assert find_suspects(state, stored) == (OPTIMIZER,)

    nine = [1100.0 + number / 10 for number in range(9)]
    verdict = decide(*compare(step("new"), step("old"), optimizer_us=nine))[OPTIMIZER]

    assert verdict.kind is VerdictKind.REGRESSION
    assert verdict.sentence.endswith(f"; {BASELINE}: what else a round does has changed")


def test_of_two_trees_the_other_one_is_named() -> None:
    state, _ = compare(step("new"), Identity(), optimizer_us=[1000.0])
    state = replace(state, other=OtherTree("0123456789", identities={STEP.id: step("old")}))

    assert prove_parts(state, StoredRuns(), [WHOLE, FORWARD, OPTIMIZER]) == {
        OPTIMIZER: BASELINE.replace("its baseline of 2026-05-04", "0123456")
    }


def test_ranges_inside_a_part_belong_to_it_and_their_names_must_agree() -> None:
    inner = launch("norm", "optimizer/clip")
    same, other = step("old", inner), step("old", replace(inner, part="optimizer/scale"))

    assert [one.name for one in same.list_part("optimizer")] == ["adam", "norm"]
    assert prove_parts(*compare(step("new", inner), same, optimizer_us=[1000.0]), [OPTIMIZER])
    assert not prove_parts(*compare(step("new", inner), other, optimizer_us=[1000.0]), [OPTIMIZER])


@pytest.mark.parametrize("kind", ["graph node", "captured"])
def test_parts_of_a_case_with_a_cuda_graph_are_not_known(kind: str) -> None:
    graph = launch("replayed", "", kind=kind)

    assert not prove_parts(*compare(step("new", graph), step("old", graph), optimizer_us=[1000.0]), [OPTIMIZER])


def test_a_name_with_a_slash_is_not_known() -> None:
    odd = launch("norm", "a/b")

    assert step("old", odd).list_part("a/b") == ()


def test_what_depends_on_the_host_is_not_proven() -> None:
    wall = replace(STEP, policy=Policy(metric="wall"))
    state, stored = compare(step("new"), step("old"), optimizer_us=[1000.0], case=wall)

    assert not prove_parts(state, stored, [OPTIMIZER])


def test_a_session_that_times_everything_proves_nothing() -> None:
    state, stored = compare(step("new"), step("old"), optimizer_us=[1000.0])
    state = replace(state, plan=replace(state.plan, skips_identical=False))

    assert not prove_parts(state, stored, [OPTIMIZER])


def test_a_part_without_launches_is_not_proven() -> None:
    state, stored = compare(step("new"), step("old"), optimizer_us=[1000.0])

    assert not prove_parts(state, stored, [Subject(STEP.id, "host work")])
