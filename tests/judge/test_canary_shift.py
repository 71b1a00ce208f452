"""The canaries take a session's shift off everybody's time, and nothing that is the user's doing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pytest_nsight.judge.canary_shift import Panel, read_canary
from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.model.values import CANARIES, Policy, Subject
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import judge, kernel, make_evidence, place, suspects, uses

NAMES = ("copy", "triad", "matmul", "elementwise", "reduction", "gather", "l2", "tiny")


def watch(ratios: dict[str, float] | float, **more: object) -> list[SubjectRuns]:
    """SubjectRuns of the canaries, each with its own change."""
    ratios = ratios if isinstance(ratios, dict) else dict.fromkeys(NAMES, ratios)
    return [
        make_evidence(100_000, ratio, subject=Subject(f"{CANARIES}::{name}"), **more)  # type: ignore[arg-type]
        for name, ratio in ratios.items()
    ]


def judge_one(evidence: SubjectRuns, canaries: list[SubjectRuns]):
    (verdict,) = judge([evidence], canaries=canaries)
    return verdict


@pytest.mark.parametrize("shift", [0.99, 1.008, 1.012])
def test_what_all_canaries_do_is_no_regression_and_no_improvement(shift: float) -> None:
    case = make_evidence(ratio=shift, policy=Policy(band=0.003))

    bare, watched = judge_one(case, []), judge_one(case, watch(shift))

    assert bare.kind in (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT)
    assert watched.kind is VerdictKind.UNCHANGED
    assert watched.comparison.ratio == pytest.approx(1.0, abs=2e-4)
    assert watched.comparison.basis.canary_shift == pytest.approx(math.log(shift), abs=2e-4)
    assert watched.comparison.now_ns / watched.comparison.baseline_ns == pytest.approx(shift, rel=2e-4)


def test_a_regression_of_the_whole_suite_is_not_taken_off() -> None:
    suite = [make_evidence(ratio=1.03, subject=Subject(f"t.py::{n}")) for n in range(20)]

    assert {verdict.kind for verdict in judge(suite, canaries=watch(1.0))} == {VerdictKind.REGRESSION}


@pytest.mark.parametrize(("shift", "ratio"), [(0.99, 1.02), (1.01, 1.04)])
def test_a_slowdown_beside_a_shift_is_found_at_its_own_size(shift: float, ratio: float) -> None:
    verdict = judge_one(make_evidence(ratio=ratio), watch(shift))

    assert verdict.kind is VerdictKind.REGRESSION
    assert verdict.comparison.ratio == pytest.approx(ratio / shift, rel=3e-4)


def test_canaries_that_disagree_widen_the_error_instead_of_deciding() -> None:
    """Half of them faster, half slower: the machine did something, but not one thing."""
    torn = {name: 1.02 if index % 2 else 1 / 1.02 for index, name in enumerate(NAMES)}
    case = make_evidence(ratio=1.03)

    calm, unsure = judge_one(case, watch(1.0)), judge_one(case, watch(torn))

    assert calm.kind is VerdictKind.REGRESSION
    assert unsure.kind is VerdictKind.INCONCLUSIVE
    scatter = unsure.comparison.basis.canary_scatter
    assert scatter == pytest.approx(np.std(np.log(list(torn.values())), ddof=1), rel=0.05)
    assert unsure.comparison.standard_error > scatter


@pytest.mark.parametrize("ratio", [0.96, 1.0, 1.04])
def test_a_shift_that_no_session_of_this_machine_makes_is_environment(ratio: float) -> None:
    verdict = judge_one(make_evidence(ratio=ratio * 1.02, policy=Policy(band=0.001)), watch(1.02))

    if ratio == 1.0:
        assert not verdict.kind.fails
    else:
        assert verdict.kind is VerdictKind.ENVIRONMENT
        assert "the canaries, the plugin's own cases, are +2.0 % off the baseline" in verdict.sentence


def test_in_one_session_nothing_is_taken_off() -> None:
    """The two sides of an interleaved comparison share all that sessions and boards do."""
    pair = make_evidence(ratio=1.03)
    same = replace(pair, new=tuple(replace(run, session="stored") for run in pair.new))
    canaries = [replace(c, new=tuple(replace(run, session="stored") for run in c.new)) for c in watch(1.01)]

    assert judge_one(same, canaries).comparison.basis.canary_shift is None
    assert judge_one(same, canaries).comparison.ratio == judge_one(same, []).comparison.ratio


def test_without_enough_canaries_all_is_as_without_any() -> None:
    case = make_evidence(ratio=1.01)
    three = watch(dict.fromkeys(NAMES[:3], 1.01))

    assert judge_one(case, three).comparison.ratio == pytest.approx(1.01, rel=1e-4)
    assert judge_one(case, three).comparison.basis.canary_shift is None


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"torch": "2.11.0"}, {"torch": "2.12.0"}),
        ({"torch": "2.11.0"}, {"canaries": "CUDA C 1, nvrtc 12.9"}),
        ({"canaries": "CUDA C 1, nvrtc 12.9"}, {"canaries": "CUDA C 1, nvrtc 13.0"}),
    ],
    ids=["torch", "without torch", "compiler"],
)
def test_canaries_of_other_software_or_other_launches_do_not_count(
    before: dict[str, str], now: dict[str, str]
) -> None:
    """What an upgrade of PyTorch does to all kernels is for the gate to find, not for the canaries to hide."""
    case = make_evidence(ratio=1.012, policy=Policy(band=0.005))
    upgraded = [
        replace(
            canary,
            baseline=tuple(replace(run, environment=before) for run in canary.baseline),
            new=tuple(replace(run, environment=now) for run in canary.new),
        )
        for canary in watch(1.012)
    ]
    recoded = watch(1.012, shapes=uses("old"), new_shapes=(replace(uses("old")[0], shape=kernel("other")),))

    for canaries in (upgraded, recoded):
        assert judge_one(case, canaries).kind is VerdictKind.REGRESSION


def test_a_wild_canary_hardly_counts() -> None:
    """One whose runs scatter by 10 % weighs next to nothing among seven whose runs agree."""
    wild = make_evidence(1000, 1.08, sd=0.1, subject=Subject(f"{CANARIES}::tiny"))
    canaries = [*watch(dict.fromkeys(NAMES[:7], 1.0)), wild]

    basis = judge_one(make_evidence(), canaries).comparison.basis

    assert abs(basis.canary_shift) < 1e-3
    assert basis.canary_scatter < 2e-3


def test_suspects_are_chosen_by_what_is_left_after_the_shift() -> None:
    shifted = make_evidence(ratio=1.012, new=1, policy=Policy(band=0.004))

    assert suspects([shifted]) == (shifted.subject,)
    assert suspects([shifted], canaries=watch(1.012)) == ()


def test_equal_canaries_are_a_plain_mean_with_its_standard_error() -> None:
    """With equal weights and no sampling error, shift and scatter are mean and deviation of the changes."""
    changes = np.array([0.001, 0.004, -0.002, 0.003, 0.0])
    canaries = [
        read_canary(str(n), 1e-18, [*place([5.0] * 5, "old"), *place([5.0 + change] * 3, "new")])
        for n, change in enumerate(changes)
    ]
    old, new = place([9.0] * 4, "old"), place([9.5] * 2, "new")

    shift = Panel(canaries).levels((*old, *new)).shift(old, new)

    assert shift.log_change == pytest.approx(changes.mean())
    assert math.sqrt(shift.scatter_variance) == pytest.approx(changes.std(ddof=1))
    assert math.sqrt(shift.error_variance) == pytest.approx(stats.sem(changes))
    assert shift.scatter_df == pytest.approx(len(changes) - 1)


def test_sessions_from_before_there_were_canaries_stay_as_they_are() -> None:
    canaries = [read_canary(str(n), 1e-6, [*place([5.0] * 5, "old"), *place([5.01] * 3, "new")]) for n in range(5)]
    panel = Panel(canaries)

    assert panel.levels((*place([9.0], "ancient"), *place([9.0], "new"))) is None
    levels = panel.levels((*place([9.0], "old"), *place([9.0], "new")))
    (ancient,) = levels.correct(place([9.0], "ancient"))
    assert ancient.log_ns == 9.0


def test_the_correction_of_the_locations_is_the_shift_that_is_told() -> None:
    rng = np.random.default_rng(3)
    canaries = [
        read_canary(
            str(n),
            0.001**2,
            [loc for s in ("a", "b", "c") for loc in place(5 + 0.01 * rng.normal(size=4), s)],
        )
        for n in range(8)
    ]
    before = (*place([9.0, 9.1], "a"), *place([9.2], "b"))
    now = place([9.3, 9.4], "c")
    levels = Panel(canaries).levels((*before, *now))

    corrected = [np.mean([item.log_ns for item in levels.correct(side)]) for side in (before, now)]
    raw = [np.mean([item.log_ns for item in side]) for side in (before, now)]
    shift = levels.shift(before, now)

    assert corrected[1] - corrected[0] == pytest.approx(raw[1] - raw[0] - shift.log_change)
    assert raw[0] == pytest.approx(corrected[0] + shift.baseline_level)
