"""What launches otherwise because of another test: left out of a verdict, named by a save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_nsight.gate.judging import judge_state, list_notes
from pytest_nsight.gate.saving import list_varying
from pytest_nsight.gate.state import GateState, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.values import Case, RunSummary, Subject
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import make_runs, uses, wobble

CASE = Case("t.py::test_model")
OWN, PATCHED = uses("softmax"), uses("max", "exp", "sum", "div")
STORED = make_runs(wobble(20_000, 5), "old", subject=Subject(CASE.id), shapes=OWN)


def after(runs: Sequence[RunSummary]) -> GateState:
    reports = {CASE.id: ({"outcome": "passed", "when": "call"},)}
    return GateState(SessionPlan((CASE,), 1), summaries=tuple(runs), reports=reports)


def launching(*shapes: tuple[object, ...]) -> list[RunSummary]:
    runs = make_runs(wobble(20_000, len(shapes)), "new", subject=Subject(CASE.id))
    return [replace(run, shapes=one) for run, one in zip(runs, shapes, strict=True)]


def test_a_run_beside_a_test_that_patches_a_library_does_not_count_and_is_named() -> None:
    first, *apart = launching(PATCHED, OWN, OWN)
    state = after([replace(first, cases=20), *(replace(run, cases=1) for run in apart)])
    known = StoredRuns({Subject(CASE.id): STORED})

    (verdict,) = judge_state(state, known)

    assert verdict.kind is VerdictKind.UNCHANGED
    assert any(
        "1 case (test_model) launched otherwise beside the other tests" in one for one in list_notes(state, known)
    )


def test_a_save_names_what_launches_otherwise_from_run_to_run() -> None:
    assert list_varying(after(launching(OWN, PATCHED, OWN))) == (Subject(CASE.id),)
    assert list_varying(after(launching(OWN, OWN, OWN))) == ()
    random = [replace(run, is_stable=False) for run in launching(OWN, PATCHED)]
    assert list_varying(after(random)) == (), "its rounds differ, which no other test does"
