"""How the runs of two trees that were measured in pairs are compared."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from pytest_nsight.judge.contrast import contrast
from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.judge.noise import LONG_KERNELS, SHIPPED_PRIOR, Prior, estimate_noise
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import judge, make_evidence, place, suspects


def test_both_sides_grow_together() -> None:
    before, now = place([0.0, 0.001, -0.001]), place([0.0, 0.001, -0.001])
    noise = estimate_noise(before, now, SHIPPED_PRIOR, LONG_KERNELS)
    stored = contrast(before, now, noise)
    paired = dataclasses.replace(stored, is_paired=True)

    assert stored.variance_with(9) == pytest.approx(stored.run_variance * (1 / 3 + 1 / 9))
    assert paired.variance_with(9) == pytest.approx(paired.run_variance * 2 / 9)
    assert paired.variance_with(3) == stored.variance_with(3) == pytest.approx(stored.run_variance * 2 / 3)
    assert paired.degrees_with(9) - paired.degrees_with(3) == 2 * (stored.degrees_with(9) - stored.degrees_with(3))


SHARED = [0.0, 0.02, -0.01, 0.015, -0.02]
"""What both runs of a pair have in common."""

OWN = [0.0002, -0.0003, 0.0001, 0.0004, -0.0002]


def test_with_a_prior_of_no_weight_the_test_is_that_of_paired_samples() -> None:
    old, new = np.array(SHARED), np.array(SHARED) + OWN + 0.01
    before, now = place(old), place(new)
    noise = estimate_noise(before, now, Prior(1.0, 1e-9), LONG_KERNELS, in_pairs=True)
    found = contrast(before, now, noise, in_pairs=True)

    expected = stats.ttest_rel(new, old, alternative="greater")

    assert found.difference == pytest.approx((new - old).mean())
    assert found.median_difference == pytest.approx(np.median(new - old))
    assert found.degrees_of_freedom == pytest.approx(4)
    assert found.p_slower == pytest.approx(expected.pvalue)
    assert found.interval == pytest.approx(stats.ttest_rel(new, old).confidence_interval(0.9))


def test_a_further_pair_adds_one_degree_of_freedom() -> None:
    before, now = place(SHARED), place(np.array(SHARED) + OWN)
    noise = estimate_noise(before, now, SHIPPED_PRIOR, LONG_KERNELS, in_pairs=True)
    found = dataclasses.replace(contrast(before, now, noise, in_pairs=True), is_paired=True)

    assert found.degrees_with(9) - found.degrees_with(5) == pytest.approx(4)
    assert found.variance_with(9) == pytest.approx(found.run_variance * 2 / 9)


def two_trees(ratio: float, shared: list[float]) -> SubjectRuns:
    """Pairs whose two runs share more than they differ by."""
    made = make_evidence(stored=len(shared), new=len(shared), sd=0.0)
    sides = []
    for side, runs, factor in (("other", made.baseline, 1.0), ("this", made.new, ratio)):
        own = [0.0] * len(shared) if side == "other" else OWN
        sides.append(
            tuple(
                dataclasses.replace(
                    run,
                    session="new",
                    rounds={
                        "kernel": tuple(
                            round(time * factor * math.exp(level + one)) for time in run.rounds["kernel"]
                        )
                    },
                )
                for run, level, one in zip(runs, shared, own, strict=False)
            )
        )
    return dataclasses.replace(made, baseline=sides[0], new=sides[1], against="1a2b3c4")


@pytest.mark.parametrize("pairs", [2, 3, 5])
def test_what_both_runs_of_a_pair_share_asks_for_no_further_pair(pairs: int) -> None:
    """Two runs of one tree differed by 0.5 to 2.7 % where those of a pair differed by 0.04 to 0.9 %."""
    evidence = two_trees(1.0, SHARED[:pairs])

    assert suspects([evidence]) == ()
    assert judge([evidence])[0].kind is VerdictKind.UNCHANGED


def test_a_regression_is_found_in_what_the_runs_of_a_pair_do_not_share() -> None:
    evidence = two_trees(1.03, SHARED)

    (verdict,) = judge([evidence])

    assert suspects([evidence]) == ()
    assert verdict.kind is VerdictKind.REGRESSION
    assert verdict.comparison is not None
    assert verdict.comparison.run_sd < 0.001


def test_runs_without_a_counterpart_are_compared_as_two_samples() -> None:
    """What the pairs share does not cancel then, so it has to count as noise."""
    evidence = two_trees(1.0, SHARED)

    (verdict,) = judge([dataclasses.replace(evidence, new=evidence.new[1:])])

    assert verdict.comparison is not None
    assert verdict.comparison.run_sd > 0.01


def test_runs_of_a_cpu_are_compared_as_two_samples() -> None:
    """Else the expected deviation of 3 % weighs more, and a bisection with a band of 1 % settles no commit."""
    evidence = two_trees(1.0, SHARED)
    sides = [
        [dataclasses.replace(run, board="a cpu") for run in side] for side in (evidence.baseline, evidence.new)
    ]

    (verdict,) = judge([dataclasses.replace(evidence, baseline=tuple(sides[0]), new=tuple(sides[1]))])

    assert verdict.comparison is not None
    assert verdict.comparison.basis is not None
    assert not verdict.comparison.basis.in_pairs


@pytest.mark.parametrize(("ratio", "kind"), [(1.0, "UNCHANGED"), (1.03, "REGRESSION"), (0.97, "IMPROVEMENT")])
def test_a_verdict_says_against_what(ratio: float, kind: str) -> None:
    stored = make_evidence(ratio=ratio, stored=9, new=9)
    runs = tuple(dataclasses.replace(run, session="new") for run in stored.baseline)
    evidence = dataclasses.replace(stored, baseline=runs, against="1a2b3c4")

    (verdict,) = judge([evidence])

    assert verdict.kind is VerdictKind[kind]
    assert "kernel time against 1a2b3c4 200 -> " in verdict.sentence
    assert "baseline" not in verdict.sentence
    assert "--nsight-save" not in verdict.sentence


def test_three_pairs_clear_what_is_unchanged_and_suspect_what_is_slower() -> None:
    def pairs(ratio: float) -> SubjectRuns:
        stored = make_evidence(ratio=ratio, stored=3, new=3)
        return dataclasses.replace(
            stored,
            baseline=tuple(dataclasses.replace(run, session="new") for run in stored.baseline),
            against="1a2b3c4",
        )

    unchanged, slower = pairs(1.0), pairs(1.03)

    assert suspects([unchanged]) == ()
    assert suspects([slower]) == (slower.subject,)
    assert judge([unchanged])[0].kind is VerdictKind.UNCHANGED
    assert judge([slower])[0].kind is VerdictKind.INCONCLUSIVE


def test_further_pairs_stand_in_for_runs_that_are_set_aside() -> None:
    stored = make_evidence(stored=3, new=3)
    drifting = tuple(int(200_000 * (1 + 0.05 * index / 40 + 0.0002 * (-1) ** index)) for index in range(40))
    first = dataclasses.replace(stored.baseline[0], rounds={"kernel": drifting})
    aside = dataclasses.replace(stored, baseline=(first, *stored.baseline[1:]))

    assert suspects([aside]) == ()
    assert suspects([dataclasses.replace(aside, against="1a2b3c4")]) == (stored.subject,)


def test_a_case_that_only_one_side_has_is_told() -> None:
    evidence = dataclasses.replace(make_evidence(stored=0, new=1), against="1a2b3c4", absent="not in 1a2b3c4")

    (verdict,) = judge([evidence])

    assert verdict.kind is VerdictKind.NO_BASELINE
    assert verdict.sentence.endswith(": not in 1a2b3c4; nothing to compare with")
