"""A JAX program on an H200 (GPU-561b2fc1, 2026-11-28) whose rounds alternate between 25.2 and 26.6 us.

Five stored runs and two of the five checks of unchanged code that followed, nine runs each. In the fourth check the
runs that do not drift are faster than the stored ones by chance: the gate called it an IMPROVEMENT. Of the launches
of the new runs those of the second stored run stand here, since a report does not hold them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_nsight.baselines.decode import decode
from pytest_nsight.judge.drift_and_modes import find_drift
from pytest_nsight.judge.judge import SubjectRuns, judge
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.values import Policy, RunSummary
from pytest_nsight.model.verdicts import Verdict, VerdictKind

DATA = Path(__file__).parents[1] / "data/alternation"
CHECKS = ["check_1", "check_4"]


def read(name: str) -> tuple[RunSummary, ...]:
    (runs,) = decode((DATA / f"h200_{name}.json").read_text(encoding="utf-8")).values()
    return tuple(runs)


def check(new: tuple[RunSummary, ...]) -> Verdict:
    stored = read("stored")
    (verdict,) = judge([SubjectRuns(stored[0].subject, Policy(band=0.01), stored, new)], family=family)
    return verdict


@pytest.mark.parametrize(("name", "drifting"), [("check_1", 2), ("check_4", 4)])
def test_unchanged_code_is_neither_slower_nor_faster_and_all_of_its_runs_count(name: str, drifting: int) -> None:
    new = read(name)
    assert sum(find_drift(np.log(run.rounds["kernel"])) != 0.0 for run in new) == drifting

    verdict = check(new)

    assert verdict.kind is VerdictKind.INCONCLUSIVE, verdict.sentence
    assert verdict.comparison.new_runs == len(new) == 9
    assert "rounds fall into two modes" in verdict.sentence
    assert "set aside" not in verdict.sentence


@pytest.mark.parametrize("name", CHECKS)
def test_eight_per_cent_more_are_found_all_the_same(name: str) -> None:
    slower = tuple(
        replace(run, rounds={"kernel": tuple(round(ns * 1.08) for ns in run.rounds["kernel"])})
        for run in read(name)
    )

    assert check(slower).kind is VerdictKind.REGRESSION
