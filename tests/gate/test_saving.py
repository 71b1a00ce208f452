"""Launches that differ from run to run cannot be compared later: a save names such cases, and so does a check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_nsight.gate.judging import list_notes
from pytest_nsight.gate.saving import list_untimed, list_varying
from pytest_nsight.gate.state import GateState, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.identity import TunedKernel
from pytest_nsight.model.values import Case, RunSummary, Subject
from tests.judge.runs import make_runs, uses, wobble

CASE = Case("t.py::test_model")
OWN, PATCHED = uses("softmax"), uses("max", "exp", "sum", "div")


def after(runs: Sequence[RunSummary]) -> GateState:
    reports = {CASE.id: ({"outcome": "passed", "when": "call"},)}
    return GateState(SessionPlan((CASE,), 1), summaries=tuple(runs), reports=reports)


def launching(*shapes: tuple[object, ...]) -> list[RunSummary]:
    runs = make_runs(wobble(20_000, len(shapes)), "new", subject=Subject(CASE.id))
    return [replace(run, shapes=one) for run, one in zip(runs, shapes, strict=True)]


def test_what_launches_otherwise_from_run_to_run_is_named() -> None:
    assert list_varying(after(launching(OWN, PATCHED, OWN))) == (Subject(CASE.id),)
    assert list_varying(after(launching(OWN, OWN, OWN))) == ()
    random = [replace(run, is_stable=False) for run in launching(OWN, PATCHED)]
    assert list_varying(after(random)) == (), "its rounds differ, which no other test does"


def test_what_an_autotuner_chose_anew_is_not_named_unless_other_launches_differ_too() -> None:
    def tuned(*choices: str, others: tuple[object, ...] = OWN) -> list[RunSummary]:
        shapes = [(*uses("fused"), *(others if at else OWN)) for at, _ in enumerate(choices)]
        return [
            replace(run, tuned=(TunedKernel("fused", "problem", choice),))
            for run, choice in zip(launching(*shapes), choices, strict=True)
        ]

    assert list_varying(after(tuned("BLOCK: 1", "BLOCK: 2"))) == ()
    assert list_varying(after(tuned("BLOCK: 1", "BLOCK: 2", others=PATCHED))) == (Subject(CASE.id),)


def test_a_check_says_whose_launches_it_does_not_compare() -> None:
    state = after(launching((*OWN, *PATCHED)))

    def notes(*stored: tuple[object, ...]) -> str:
        runs = [replace(run, session="old") for run in launching(*stored)]
        return " ".join(list_notes(state, StoredRuns({Subject(CASE.id): tuple(runs)})))

    assert "launches of 1 case (test_model) are not compared" in notes(OWN, PATCHED, OWN)
    assert "not compared" not in notes(OWN, OWN, OWN)


def test_a_case_without_time_of_its_metric_is_named_with_one_that_it_has() -> None:
    copying = [replace(run, rounds={"kernel": (0,) * 9, "copy": run.rounds["kernel"]}) for run in launching(OWN)]
    nothing = [replace(run, rounds={"kernel": (0,) * 9}) for run in launching(OWN)]

    assert list_untimed(after(copying)) == {Subject(CASE.id): ("kernel", "copy")}
    assert list_untimed(after(nothing)) == {Subject(CASE.id): ("kernel", "")}, "there is nothing to gate instead"
    assert list_untimed(after([*copying, *launching(OWN)])) == {}, "a later check has a run to compare with"
    assert list_untimed(after(launching(OWN))) == {}
