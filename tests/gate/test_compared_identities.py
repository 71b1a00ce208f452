"""Parts of a changed case that launch the same as before, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from pytest_nsight.gate.judging import find_suspects, judge_state, list_subjects
from pytest_nsight.gate.other_tree import OtherTree
from pytest_nsight.gate.proofs import join_proofs
from pytest_nsight.gate.state import GateState, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.identity import Identity, LaunchIdentity, MachineCode, make_identity
from pytest_nsight.model.shapes import ShapeUse
from pytest_nsight.model.values import Case, Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import Verdict, VerdictKind
from tests.judge.runs import kernel, make_runs, uses

STEP = Case("t.py::step", Policy(band=0.01))
WHOLE, FORWARD, OPTIMIZER = Subject(STEP.id), Subject(STEP.id, "forward"), Subject(STEP.id, "optimizer")
PROOF = "the same machine code, launch shapes and arguments as its baseline of 2026-05-04 (1 launch)"
MEDIANS_US = (1000.0, 1001.0, 999.0, 1000.5, 999.5)


def launch(name: str, part: str, code: str = "", kind: str = "kernel") -> LaunchIdentity:
    return LaunchIdentity(kind, name, MachineCode(code or name), (8, 1, 1), (128, 1, 1), part=part)


def step(forward: str, *more: LaunchIdentity) -> Identity:
    return make_identity([launch("rotary", "forward", forward), launch("adam", "optimizer"), *more])


@dataclass
class Comparison:
    """A training step and its two parts, timed in five stored runs and in new ones.

    Attributes:
        now: what the identity pass found.
        before: what the stored runs have.
        optimizer_us: the new runs' times of the optimizer.
        case: what is compared.
        optimizer: what its timed runs launch, by session.
    """

    now: Identity = field(default_factory=lambda: step("new"))
    before: Identity = field(default_factory=lambda: step("old"))
    optimizer_us: Sequence[float] = (1000.0,)
    case: Case = STEP
    optimizer: Mapping[str, tuple[ShapeUse, ...]] = field(default_factory=dict)

    def runs(self, subject: Subject, times_us: Sequence[float], session: str) -> tuple[RunSummary, ...]:
        launches = {WHOLE: uses("rotary", "adam"), FORWARD: uses("rotary")}
        shapes = launches.get(subject, self.optimizer.get(session, uses("adam")))
        made = make_runs([1000 * us for us in times_us], session, subject=subject, shapes=shapes)
        identity = None if subject.part or session == "new" else self.before
        return tuple(replace(run, identity=identity, recorded="2026-05-04T00:00:00Z") for run in made)

    @property
    def stored(self) -> StoredRuns:
        return StoredRuns({one: self.runs(one, MEDIANS_US, "stored") for one in (WHOLE, FORWARD, OPTIMIZER)})

    @property
    def state(self) -> GateState:
        passed = {self.case.id: ({"outcome": "passed", "when": "call"},)}
        measured = {WHOLE: [1000.0], FORWARD: [1000.0], OPTIMIZER: self.optimizer_us}
        return GateState(
            SessionPlan((self.case,), 1, skips_identical=True),
            identities={self.case.id: self.now},
            identity_reports=passed,
            reports=passed,
            summaries=tuple(run for one, times in measured.items() for run in self.runs(one, times, "new")),
        )

    def prove(self, state: GateState | None = None, stored: StoredRuns | None = None) -> dict[str, str]:
        """Part -> its proof; "" stands for the whole case."""
        subjects = list_subjects(state or self.state, stored or self.stored)
        return {one.subject.part: one.proof for one in subjects if one.proof}

    def decide(self) -> dict[Subject, Verdict]:
        verdicts = join_proofs(self.state, self.stored, judge_state(self.state, self.stored))
        return {one.subject: one for one in verdicts}


def test_a_part_that_launches_the_same_is_identical_where_another_has_changed() -> None:
    verdicts = Comparison(optimizer_us=[1004.0]).decide()

    assert verdicts[OPTIMIZER].kind is VerdictKind.IDENTICAL
    assert verdicts[OPTIMIZER].sentence == f"step/optimizer: {PROOF}; timed with its case: +0.40 %"
    assert verdicts[OPTIMIZER].comparison is not None
    assert verdicts[WHOLE].kind is verdicts[FORWARD].kind is VerdictKind.UNCHANGED
    assert "machine code of rotary changed" in verdicts[FORWARD].sentence


def test_noise_of_such_a_part_asks_for_no_further_runs() -> None:
    compared = Comparison(optimizer_us=[1009.0])

    assert find_suspects(compared.state, compared.stored) == ()


def test_noise_of_a_part_that_has_changed_asks_for_further_runs() -> None:
    changed = make_identity([launch("rotary", "forward"), launch("adam", "optimizer", "new")])
    compared = Comparison(changed, step("rotary"), [1009.0])

    assert find_suspects(compared.state, compared.stored) == (OPTIMIZER,)


@pytest.mark.parametrize(("ns", "kind"), [(1100.0, VerdictKind.REGRESSION), (900.0, VerdictKind.IMPROVEMENT)])
def test_a_part_whose_time_changed_all_the_same_is_measured_again_and_says_that_its_launches_did_not(
    ns: float, kind: VerdictKind
) -> None:
    first = Comparison(optimizer_us=[ns])
    assert find_suspects(first.state, first.stored) == (OPTIMIZER,)

    verdict = Comparison(optimizer_us=[ns + number / 10 for number in range(9)]).decide()[OPTIMIZER]

    assert verdict.kind is kind
    assert verdict.sentence.endswith(f"; {PROOF}: what else a round does has changed")


def test_of_two_trees_the_other_one_is_named() -> None:
    compared = Comparison()
    runs = {one: compared.runs(one, MEDIANS_US, "new") for one in (WHOLE, FORWARD, OPTIMIZER)}
    other = OtherTree("0123456789", identities={STEP.id: step("old")}, runs=runs)

    proofs = compared.prove(replace(compared.state, other=other), StoredRuns())

    assert proofs == {"optimizer": PROOF.replace("its baseline of 2026-05-04", "0123456")}


def test_ranges_inside_a_part_belong_to_it_and_their_names_must_agree() -> None:
    inner = launch("norm", "optimizer/clip")
    other = replace(inner, part="optimizer/scale")
    launches = {"new": uses("adam", "norm"), "stored": uses("adam", "norm")}

    assert [one.name for one in step("old", inner).list_part("optimizer")] == ["adam", "norm"]
    assert Comparison(step("new", inner), step("old", inner), optimizer=launches).prove()
    assert not Comparison(step("new", inner), step("old", other), optimizer=launches).prove()


def test_a_part_is_not_another_one_whose_name_begins_likewise_nor_what_lies_outside_of_ranges() -> None:
    more = (launch("clip", "optimizer scale"), launch("copy", "", kind="copy"))

    assert [one.name for one in step("old", *more).list_part("optimizer")] == ["adam"]
    assert set(Comparison(step("new", *more), step("old", *more)).prove()) == {"optimizer"}


def test_copies_are_compared_and_not_counted_as_launches() -> None:
    copy = launch("HtoD", "optimizer", kind="copy")

    assert Comparison(step("new", copy), step("old", copy)).prove() == {"optimizer": PROOF}
    assert not Comparison(step("new", copy), step("old")).prove()


@pytest.mark.parametrize("kind", ["graph node", "captured"])
def test_parts_of_a_case_with_a_cuda_graph_are_not_known(kind: str) -> None:
    graph = launch("replayed", "", kind=kind)

    assert not Comparison(step("new", graph), step("old", graph)).prove()


OTHER_GRID = (ShapeUse(kernel("adam", grid=16), 1, 1000),)


@pytest.mark.parametrize("session", ["new", "stored"])
@pytest.mark.parametrize("timed", [OTHER_GRID, uses("adam", "child's")], ids=["another grid", "one more"])
def test_what_was_timed_must_be_what_was_identified(timed: tuple[ShapeUse, ...], session: str) -> None:
    assert not Comparison(optimizer={session: timed}).prove()


def test_launches_that_differ_from_round_to_round_are_not_proven() -> None:
    compared = Comparison()
    state = compared.state
    unstable = tuple(replace(run, is_stable=run.subject != OPTIMIZER) for run in state.summaries)

    assert not compared.prove(replace(state, summaries=unstable))


def test_a_structure_that_changed_all_the_same_keeps_its_verdict() -> None:
    compared = Comparison(
        optimizer_us=[1000.0 + number / 10 for number in range(9)], optimizer={"new": uses("adam_other")}
    )

    verdict = compared.decide()[OPTIMIZER]

    assert verdict.kind is VerdictKind.STRUCTURE
    assert PROOF not in verdict.sentence


def test_the_newest_save_must_be_what_is_compared_with() -> None:
    compared = Comparison()
    newer = [
        replace(run, session="newer", recorded="2026-06-01T00:00:00Z", environment={"cold_cache": "off"})
        for run in compared.runs(WHOLE, MEDIANS_US, "stored")
    ]
    stored = {one: compared.runs(one, MEDIANS_US, "stored") for one in (FORWARD, OPTIMIZER)}

    assert not compared.prove(stored=StoredRuns({**stored, WHOLE: newer}))


def test_an_older_save_may_have_launched_something_else() -> None:
    compared = Comparison()
    runs = {one: compared.runs(one, MEDIANS_US, "stored") for one in (WHOLE, FORWARD, OPTIMIZER)}
    older = [replace(run, session="older", shapes=OTHER_GRID) for run in runs[OPTIMIZER]]

    assert compared.prove(stored=StoredRuns({**runs, OPTIMIZER: [*older, *runs[OPTIMIZER]]}))


def test_stored_runs_of_several_identities_prove_nothing() -> None:
    compared = Comparison()
    first, *others = compared.runs(WHOLE, MEDIANS_US, "stored")
    mixed = [replace(first, identity=step("older")), *others]
    stored = {one: compared.runs(one, MEDIANS_US, "stored") for one in (FORWARD, OPTIMIZER)}

    assert not compared.prove(stored=StoredRuns({**stored, WHOLE: mixed}))


def test_parts_of_an_identical_case_need_no_proof_of_their_own() -> None:
    assert not Comparison(step("same"), step("same")).prove()


def test_what_depends_on_the_host_is_not_proven() -> None:
    assert not Comparison(case=replace(STEP, policy=Policy(metric="wall"))).prove()


def test_a_session_that_times_everything_proves_nothing() -> None:
    compared = Comparison()
    state = compared.state

    assert not compared.prove(replace(state, plan=replace(state.plan, skips_identical=False)))
