"""Which changes need no further runs: those beyond doubt, by far more than the last look asks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pytest_nsight.judge.contrast import contrast
from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.judge.looks import is_beyond_doubt
from pytest_nsight.judge.noise import LONG_KERNELS, SHIPPED_PRIOR, estimate_noise
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import GPU, judge, make_evidence, place, suspects

MATERIAL = 0.02


def paired(ratio: float, runs: int, sd: float = 0.001) -> SubjectRuns:
    """As many runs of each of two trees."""
    found = make_evidence(ratio=ratio, stored=runs, new=runs, sd=sd)
    baseline = tuple(replace(run, session="new") for run in found.baseline)
    return replace(found, baseline=baseline, against="1a2b3c4")


@pytest.mark.parametrize(("ratio", "kind"), [(1.1, VerdictKind.REGRESSION), (0.9, VerdictKind.IMPROVEMENT)])
def test_a_change_beyond_doubt_gets_its_verdict_after_five_runs(ratio: float, kind: VerdictKind) -> None:
    clear = paired(ratio, runs=5)

    assert suspects([clear]) == ()
    assert judge([clear])[0].kind is kind


@pytest.mark.parametrize(
    "evidence",
    [paired(1.1, runs=3), paired(1.0205, runs=5), paired(1.1, runs=5, sd=0.04)],
    ids=["seen too seldom", "hardly beyond the band", "of noisy runs"],
)
def test_any_other_change_gets_all_its_looks(evidence: SubjectRuns) -> None:
    assert suspects([evidence]) == (evidence.subject,)


@pytest.mark.parametrize("excess", [0.0, 0.002, 0.003, 0.004, 0.006])
def test_beyond_doubt_is_a_hundredth_of_the_error_probability_shared_by_all_that_are_compared(
    excess: float,
) -> None:
    logs = np.array([0.0, 0.0004, -0.0004, 0.0002, -0.0002])
    before, after = place(logs), place(logs + MATERIAL + excess)
    noise = estimate_noise(before, after, replace(SHIPPED_PRIOR, degrees_of_freedom=1e-9), LONG_KERNELS)
    slower = replace(contrast(before, after, noise), material=MATERIAL, is_paired=True)
    faster = replace(slower, difference=-slower.difference)

    p_value = stats.ttest_ind(logs + excess, logs, equal_var=True, alternative="greater").pvalue

    for compared in (1, 10, 1000):
        assert is_beyond_doubt(slower, compared) == (p_value <= 0.005 / 100 / compared)
        assert is_beyond_doubt(faster, compared) == is_beyond_doubt(slower, compared)


@pytest.mark.parametrize(
    ("board", "change", "is_again"), [("GPU-b", 1.03, False), ("GPU-b", 1.2, True), (GPU, 1.03, True)]
)
def test_a_proof_is_contradicted_only_by_more_than_boards_differ(board: str, change: float, is_again: bool) -> None:
    """On a board that had stored nothing two audits at +0.8 and +1.1 % once made a check of 56 s take 133 s."""
    evidence = make_evidence(ratio=change, new=1, new_board=board)

    assert bool(suspects([evidence], proven={evidence.subject.case})) == is_again
