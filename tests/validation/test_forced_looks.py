"""Forced looks: checks of unchanged code whose random cases get the confirming runs that a live gate gets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.validate import forced_checks
from benchmarks.validate.study import Study, load_study
from benchmarks.validate.tables import forced_looks
from pytest_nsight.calibrate.forced_looks import CONFIRMING, FORCED, ForcedLooks, force_looks, part_confirming
from pytest_nsight.calibrate.resampling import Situation
from pytest_nsight.gate import loop
from pytest_nsight.gate.loop import run_loop
from pytest_nsight.gate.state import GateState, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.values import Case, RunSummary
from pytest_nsight.model.verdicts import VerdictKind
from tests.gate.processes import Machine
from tests.validation.collections import make_collection

pytestmark = pytest.mark.slow

CASES = 12


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return load_study([make_collection(tmp_path_factory.mktemp("forced") / "collection", cases=CASES)])


def with_confirming(study: Study, shift: float, scale: float = 1.0) -> Study:
    """Takes 9 runs of each session for confirming ones, whose cases are slower by the shift; times are scaled."""

    def scaled(run: RunSummary, factor: float, cases: int) -> RunSummary:
        rounds = {"kernel": tuple(round(ns * scale * factor) for ns in run.rounds["kernel"])}
        return replace(run, rounds=rounds, cases=cases)

    sound, confirming = [], []
    for number, process in enumerate(study.sound):
        if number % 14 < 5:
            runs = {one: scaled(run, 1.0, CASES) for one, run in process.summaries.items()}
            sound.append(replace(process, summaries=runs))
        else:
            confirming += [
                scaled(run, 1.0 if subject.is_canary else 1 + shift, 2)
                for subject, run in process.summaries.items()
            ]
    return replace(study, sound=tuple(sound), confirming=tuple(confirming))


def force(study: Study) -> ForcedLooks | None:
    """Ten checks on the same board in another session, at a band of 2 %."""
    rng = np.random.default_rng(1)
    return force_looks(study.sound, study.confirming, study.with_band(0.02), Situation.SAME_BOARD, 10, rng)


def test_a_study_without_confirming_runs_says_what_it_lacks(study: Study) -> None:
    assert force(study) is None
    assert forced_looks([])[0].startswith("No session holds confirming runs")


def test_forced_cases_get_all_looks_and_no_other_case_does(study: Study) -> None:
    found = force(with_confirming(study, 0.0))

    assert found is not None
    assert found.suites.attempts == 10
    assert found.suites.hits == 0
    assert sum(counts.total() for counts in found.kinds.values()) == 10 * FORCED
    assert {kind for counts in found.kinds.values() for kind in counts} == {VerdictKind.UNCHANGED}


def test_confirming_runs_of_long_cases_that_are_slower_are_found_out(study: Study) -> None:
    found = force(with_confirming(study, 0.06))

    assert found is not None
    assert found.suites.hits == 10
    assert "100.00 %" in forced_looks([found])[2]


def test_the_same_slowness_of_tiny_cases_fails_nothing(study: Study) -> None:
    found = force(with_confirming(study, 0.06, scale=0.004))

    assert found is not None
    assert found.suites.hits == 0
    assert max(found.kinds) <= 1


def test_runs_of_few_cases_are_parted_from_those_of_the_suite(study: Study) -> None:
    rng = np.random.default_rng(1)
    runs = [
        replace(run, cases=int(rng.choice([1, 3, 24]))) for one in study.sound for run in one.summaries.values()
    ]

    whole, confirming = part_confirming(runs)

    assert {run.cases for run in whole} == {24}
    assert {run.cases for run in confirming} == {1, 3}
    assert part_confirming([replace(run, cases=0) for run in runs])[1] == []
    assert CONFIRMING == 8


def test_a_live_check_sends_the_same_cases_through_all_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "find_suspects", loop.find_suspects)
    forced_checks.pytest_configure()
    cases = tuple(Case(f"t.py::{number}") for number in range(10))
    machine = Machine()

    run_loop(GateState(SessionPlan(cases, 1, is_judged=True, seed="s")), machine, lambda _: StoredRuns())

    whole, *confirming = [frozenset(assignment.cases) for assignment in machine.assignments]
    assert len(whole) == 10
    assert len(confirming) == CONFIRMING
    assert [len(cases) for cases in set(confirming)] == [FORCED]
