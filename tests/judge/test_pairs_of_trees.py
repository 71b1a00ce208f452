"""How the runs of two trees that were measured in pairs are compared."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_nsight.judge.contrast import contrast
from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.judge.noise import LONG_KERNELS, SHIPPED_PRIOR, estimate_noise
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
