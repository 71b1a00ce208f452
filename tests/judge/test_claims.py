"""Claims need no baseline and fail on their own."""

import dataclasses

import pytest

from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.model.roofline import Limits
from pytest_nsight.model.shapes import Shape, ShapeUse
from pytest_nsight.model.values import Policy, RunSummary, Subject, Work
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import GPU, judge, make_evidence, make_runs, suspects, uses, wobble

FUSED, UNFUSED = Subject("t.py::test_norm[fused]"), Subject("t.py::test_norm[unfused]")


def verdict_of(evidence):
    (verdict,) = judge([evidence])
    return verdict


def race(ratio, *, by=1.2, runs=1, sd=0.001, board="GPU-a"):
    """Two cases in the same runs: the fused one, which claims to win, and its partner."""
    own = make_runs(wobble(100_000, runs, sd), "new", subject=FUSED, board=board)
    other = make_runs(wobble(100_000 * ratio, runs, sd)[::-1], "new", subject=UNFUSED, board=board)
    return [
        SubjectRuns(FUSED, Policy(faster_than=UNFUSED.case, by=by), (), own),
        SubjectRuns(UNFUSED, Policy(), (), other),
    ]


@pytest.mark.parametrize(
    ("policy", "part"),
    [
        (Policy(launches=1), "1 launch claimed, 2 per round: pow, mean"),
        (Policy(kernels=("fused",)), "claimed kernels not launched: fused; launched: mean, pow"),
        (
            Policy(max_time_ns=150_000),
            "kernel time 200 us, at most 150 us claimed (95 % CI",
        ),
    ],
)
@pytest.mark.parametrize("stored", [0, 5])
def test_a_broken_claim_fails_with_and_without_a_baseline(policy, part, stored):
    verdict = verdict_of(make_evidence(new=1, stored=stored, policy=policy, shapes=uses("pow", "mean")))

    assert verdict.kind is VerdictKind.CLAIM
    assert f"claim failed: {part}" in verdict.sentence


@pytest.mark.parametrize(
    "policy", [Policy(launches=2), Policy(kernels=("mean",)), Policy(max_time_ns=250_000), Policy()]
)
def test_a_claim_that_holds_leaves_the_verdict_on_time(policy):
    verdict = verdict_of(make_evidence(new=1, policy=policy, shapes=uses("pow", "mean")))

    assert verdict.kind is VerdictKind.UNCHANGED


def test_copies_are_no_launches_in_a_claim():
    shapes = (*uses("mm"), ShapeUse(Shape("memcpy", "[memcpy DtoH]"), 1, 5))

    assert not verdict_of(make_evidence(new=1, policy=Policy(launches=1), shapes=shapes)).kind.fails


def test_launches_that_differ_between_rounds_leave_the_claim_open():
    runs = make_runs([200_000], "new", shapes=uses("a", "b"), is_stable=False)

    verdict = verdict_of(SubjectRuns(runs[0].subject, Policy(launches=1), make_evidence().baseline, runs))

    assert verdict.kind is not VerdictKind.CLAIM


def test_a_factor_clearly_above_the_claim_holds_in_one_run():
    verdict = judge(race(1.4))[0]

    assert verdict.kind is VerdictKind.NO_BASELINE


def test_a_factor_below_the_claim_fails_with_its_interval():
    verdict = judge(race(1.1))[0]

    assert verdict.kind is VerdictKind.CLAIM
    assert "1.10x as fast as test_norm[unfused], 1.2x claimed (95 % CI 1.09 to 1.11x, 1 run)" in verdict.sentence


def test_a_factor_not_shown_above_the_claim_fails_though_it_was_measured_above():
    """The lower end of the interval must exceed the claim."""
    verdict = judge(race(1.201, runs=9, sd=0.01))[0]

    assert verdict.kind is VerdictKind.CLAIM


def test_a_close_factor_asks_for_more_runs_of_both_cases_and_a_clear_one_for_none():
    assert suspects(race(1.201)) == (FUSED, UNFUSED)
    assert suspects(race(1.4)) == ()
    assert suspects(race(1.1)) == ()
    assert suspects(race(1.201, runs=9, sd=0.01)) == ()


def test_of_what_is_proven_a_claim_asks_for_no_runs_unless_another_case_makes_it() -> None:
    assert suspects(race(1.201), proven={FUSED.case, UNFUSED.case}) == ()
    assert suspects(race(1.201), proven={UNFUSED.case}) == (FUSED, UNFUSED)


def test_a_shift_of_whole_runs_cancels_in_the_factor():
    """Both cases of a run twice as slow: the factor is as sharp as before."""
    own = make_runs([100_000, 200_000, 150_000], "new", subject=FUSED)
    other = make_runs([130_000, 260_000, 195_000], "new", subject=UNFUSED)
    evidence = [
        SubjectRuns(FUSED, Policy(faster_than=UNFUSED.case, by=1.28), (), own),
        SubjectRuns(UNFUSED, Policy(), (), other),
    ]

    assert judge(evidence)[0].kind is VerdictKind.NO_BASELINE


def test_a_partner_that_was_not_measured_leaves_the_claim_open():
    evidence = make_evidence(new=1, policy=Policy(faster_than=UNFUSED.case, by=1.2))

    verdict = verdict_of(evidence)

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert "1.2x faster than test_norm[unfused] claimed, which was not measured" in verdict.sentence


def test_partners_without_a_common_run_leave_the_claim_open():
    own = make_runs([100_000], "monday", subject=FUSED)
    other = make_runs([99_000, 130_000], "monday", subject=UNFUSED)[1:]
    evidence = [
        SubjectRuns(FUSED, Policy(faster_than=UNFUSED.case), (), own),
        SubjectRuns(UNFUSED, Policy(), (), other),
    ]

    verdict = judge(evidence)[0]

    assert verdict.kind is VerdictKind.NO_BASELINE
    assert "no run measured both" in verdict.sentence


@pytest.mark.parametrize(
    ("by", "board", "kind"),
    [
        (1.28, "GPU-a", VerdictKind.NO_BASELINE),
        (1.35, "GPU-a", VerdictKind.CLAIM),
        # Boards differ by about 0.6 %, so that 1.28 is not shown there.
        (1.28, "GPU-b", VerdictKind.CLAIM),
        (1.2, "GPU-b", VerdictKind.NO_BASELINE),
    ],
)
def test_partners_of_two_shards_are_compared_with_the_noise_of_sessions_and_boards(by, board, kind):
    own = make_runs([100_000] * 3, "shard 1", subject=FUSED)
    other = make_runs([130_000] * 3, "shard 2", subject=UNFUSED, board=board)
    evidence = [
        SubjectRuns(FUSED, Policy(faster_than=UNFUSED.case, by=by), (), own),
        SubjectRuns(UNFUSED, Policy(), (), other),
    ]

    assert judge(evidence)[0].kind is kind


def test_a_claim_of_a_case_is_not_made_of_its_parts():
    part = Subject("t.py::test_step", "forward")

    assert not verdict_of(make_evidence(subject=part, policy=Policy(launches=7), new=1)).kind.fails


def test_a_time_close_to_its_limit_asks_for_more_runs_and_passes_unless_shown_above():
    close = make_evidence(100_050, new=1, policy=Policy(max_time_ns=100_000))

    assert suspects([close]) == (close.subject,)
    assert not verdict_of(close).kind.fails


def test_a_broken_claim_beside_a_regression_is_told_in_the_same_sentence():
    verdict = verdict_of(make_evidence(ratio=1.5, policy=Policy(launches=1), shapes=uses("a", "b")))

    assert verdict.kind is VerdictKind.REGRESSION
    assert "claim failed: 1 launch claimed, 2 per round" in verdict.sentence


def test_an_empty_capture_breaks_a_claim_on_launches():
    run = RunSummary(FUSED, "r", "s", "GPU-a", {"kernel": (0, 0)})

    assert verdict_of(SubjectRuns(FUSED, Policy(launches=1), (), (run,))).kind is VerdictKind.CLAIM


LIMITS = {GPU: Limits(bytes_per_s=4e12, flops_per_s=8e14)}


def sharing(share, claimed, *, work=None, limits=None, runs=1, sd=0.001, board=GPU):
    """A case whose work would take 100 us at the limit, and which needs 100 us / share."""
    own = make_runs(wobble(100_000 / share, runs, sd), "new", subject=FUSED, board=board)
    own = tuple(dataclasses.replace(run, work=work or Work(400_000_000, 1000)) for run in own)
    policy = Policy(min_share_of_limit=claimed)
    return SubjectRuns(FUSED, policy, (), own, limits=LIMITS if limits is None else limits)


def test_a_share_below_the_claim_fails_with_the_limit_and_its_interval():
    verdict = verdict_of(sharing(0.87, 0.9))

    assert verdict.kind is VerdictKind.CLAIM
    assert (
        "claim failed: reaches 87 % of the board's 4.00 TB/s copy bandwidth, at least 90 % claimed "
        "(95 % CI 86.6 to 87.4 %, 1 run)"
    ) in verdict.sentence


def test_work_of_high_intensity_is_held_against_the_matmul():
    """8e14 FLOP/s over 4e12 B/s: from 200 operations a byte on, arithmetic is what bounds."""
    verdict = verdict_of(sharing(0.5, 0.6, work=Work(bytes_moved=399_000_000, flops=80_000_000_000)))

    assert "reaches 50 % of the board's 800 TFLOP/s of a bf16 matmul, at least 60 % claimed" in verdict.sentence


def test_a_share_above_or_around_the_claim_holds_and_a_close_one_asks_for_more_runs():
    above, around = sharing(0.95, 0.9), sharing(0.9005, 0.9)

    assert verdict_of(above).kind is verdict_of(around).kind is VerdictKind.NO_BASELINE
    assert suspects([above]) == suspects([sharing(0.5, 0.9)]) == ()
    assert suspects([around]) == (FUSED,)


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({}, "the limit is not known, for the canaries of this session were not measured"),
        ({"GPU-other": Limits(4e12, 8e14)}, "the limit is not known"),
        ({GPU: Limits(4e12, None)}, "the limit is not known"),
    ],
)
def test_without_the_limit_the_claim_is_open(limits, why):
    held = sharing(0.95, 0.9, limits=limits)
    baseline = make_runs(wobble(100_000 / 0.95, 5), "stored", subject=FUSED)

    verdict = verdict_of(dataclasses.replace(held, baseline=baseline))

    assert not verdict.kind.fails
    assert f"at least 90 % of the board's limit claimed, not checked: {why}" in verdict.sentence


def test_without_declared_work_the_claim_says_what_to_do():
    verdict = verdict_of(make_evidence(policy=Policy(min_share_of_limit=0.5)))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert "the test does not say what a round has to do; nsight.work(bytes=, flops=) does" in verdict.sentence


@pytest.mark.parametrize(
    "policy",
    [
        Policy(launches=1),
        Policy(kernels=("fused",)),
        Policy(max_time_ns=1),
        Policy(min_share_of_limit=1.0),
        Policy(faster_than=UNFUSED.case, by=100.0),
    ],
)
def test_on_a_cpu_no_claim_is_checked_and_that_is_said(policy):
    """Its operators replace kernels; how many and how fast they are says nothing of a GPU."""
    policy = dataclasses.replace(policy, band=0.2)
    verdict = verdict_of(make_evidence(policy=policy, board="some CPU, 8 threads", shapes=uses("pow", "mean")))

    assert verdict.kind is VerdictKind.UNCHANGED
    assert "its claims were not checked: they are about GPU kernels, and no GPU was measured" in verdict.sentence
