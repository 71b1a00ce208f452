"""Each rule of the gate from its claim, on runs whose figures are exact."""

import dataclasses
import itertools
import math

import pytest

from pytest_nsight.judge.environment_checks import POWER_CAP
from pytest_nsight.judge.judge import LOOKS, SubjectRuns
from pytest_nsight.model.comparison import SlowerKernel
from pytest_nsight.model.shapes import ShapeUse
from pytest_nsight.model.values import Clocks, Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import (
    SUBJECT,
    judge,
    kernel,
    make_evidence,
    make_runs,
    make_streams,
    rounds_around,
    suspects,
    wobble,
)


def verdict_of(evidence):
    (verdict,) = judge([evidence])
    return verdict


def test_slower_beyond_band_and_noise_is_a_regression_told_with_its_figures():
    slow = ShapeUse(kernel("_rms_norm_fused"), 1, 24_400)
    slower = ShapeUse(kernel("_rms_norm_fused"), 1, 26_100)

    verdict = verdict_of(make_evidence(24_400, 1.07, shapes=(slow,), new_shapes=(slower,)))

    assert verdict.kind is VerdictKind.REGRESSION
    assert verdict.sentence.startswith(
        "test_rms_norm[fused-4096]: kernel time 24.4 -> 26.1 us (+7.0 %, band 2 %, 5+9 runs, p "
    )
    assert verdict.sentence.endswith("); slower kernel: _rms_norm_fused")
    assert verdict.comparison.ratio == pytest.approx(1.07, rel=1e-4)
    assert verdict.comparison.slower_kernels == (SlowerKernel("_rms_norm_fused", 24_400.0, 26_100.0),)


def test_faster_is_an_improvement_that_suggests_to_save():
    verdict = verdict_of(make_evidence(ratio=1 / 1.07))

    assert verdict.kind is VerdictKind.IMPROVEMENT
    assert "--nsight-save" in verdict.sentence


def test_equal_runs_are_shown_unchanged_within_one_and_a_half_bands():
    verdict = verdict_of(make_evidence(new=1))

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.sentence.endswith("equal within 3 %")


@pytest.mark.parametrize(("ratio", "fails"), [(1.019, False), (1.021, True)])
def test_only_what_exceeds_the_band_fails_however_sure_it_is(ratio, fails):
    assert verdict_of(make_evidence(ratio=ratio)).kind.fails is fails


def test_a_wider_band_forgives_what_a_narrow_one_fails():
    kinds = [verdict_of(make_evidence(ratio=1.05, policy=Policy(band=band))).kind for band in (0.02, 0.10)]

    assert kinds == [VerdictKind.REGRESSION, VerdictKind.UNCHANGED]


def test_noise_as_large_as_the_change_is_inconclusive_and_says_what_would_be_found():
    verdict = verdict_of(make_evidence(ratio=1.03, sd=0.04))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert "are found" in verdict.sentence
    assert verdict.comparison.mde > 0.05


def test_more_stored_runs_are_advised_where_they_settle_it():
    verdict = verdict_of(make_evidence(ratio=1.0, stored=3, sd=0.035))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert "more runs with --nsight-save" in verdict.sentence


def test_a_wider_band_is_advised_where_runs_do_not_settle_it_and_it_does_settle_it():
    verdict = verdict_of(make_evidence(ratio=1.0, sd=0.06))
    band = float(verdict.sentence.rsplit("a band of ", 1)[1].split(" %")[0]) / 100
    wider = verdict_of(make_evidence(ratio=1.0, sd=0.06, policy=Policy(band=band)))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert wider.kind is VerdictKind.UNCHANGED


@pytest.mark.parametrize("stored", [1, 2])
def test_too_few_stored_runs_never_fail_on_time(stored):
    verdict = verdict_of(make_evidence(ratio=2.0, stored=stored))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert f"+100 % vs {stored} run" in verdict.sentence
    assert "save 5 with --nsight-save" in verdict.sentence


@pytest.mark.parametrize("new", [1, 3])
def test_too_few_new_runs_never_fail_on_time_and_are_suspects(new):
    evidence = make_evidence(ratio=2.0, new=new)

    assert suspects([evidence]) == (SUBJECT,)
    assert verdict_of(evidence).kind is VerdictKind.INCONCLUSIVE
    sentence = verdict_of(evidence).sentence
    assert f"beyond band 2 %, for which {new} new run" in sentence
    assert "confirm it" in sentence


def test_no_stored_runs_is_no_baseline():
    verdict = verdict_of(make_evidence(stored=0))

    assert verdict.kind is VerdictKind.NO_BASELINE
    assert "--nsight-save" in verdict.sentence


@pytest.mark.parametrize("new", [1, 9])
@pytest.mark.parametrize("sd", [0.02, 0.15])
@pytest.mark.parametrize("ratio", [0.7, 1.1, 1.3])
def test_a_cpu_does_not_cry_wolf_below_fifty_percent(ratio, sd, new):
    verdict = verdict_of(make_evidence(ratio=ratio, board="Intel Xeon", sd=sd, new=new))

    assert verdict.kind in (VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE)


def test_a_cpu_finds_a_doubled_time_and_says_why_its_band_is_wide():
    verdict = verdict_of(make_evidence(ratio=2.0, board="Intel Xeon", sd=0.1, new=9))

    assert verdict.kind is VerdictKind.REGRESSION
    assert "band 50 % for runs on a CPU" in verdict.sentence


def test_two_trees_in_pairs_on_a_cpu_keep_the_band():
    evidence = dataclasses.replace(make_evidence(ratio=1.4, board="Intel Xeon", sd=0.001, new=9), against="main")

    assert verdict_of(evidence).kind is VerdictKind.REGRESSION


def test_another_board_is_compared_with_more_doubt_than_the_same():
    errors = [
        verdict_of(make_evidence(ratio=1.0, new_board=board)).comparison.standard_error for board in (None, "GPU-b")
    ]

    assert errors[1] > 2 * errors[0]


def test_stored_runs_of_the_same_board_are_preferred_to_others():
    stored = make_evidence()
    other = make_runs(wobble(203_000, 5), "elsewhere", board="GPU-b", recorded="2025-12-01T00:00:00Z")
    both = SubjectRuns(SUBJECT, Policy(), (*other, *stored.baseline), stored.new)

    assert verdict_of(both).comparison.baseline_ns == pytest.approx(200_000, rel=1e-4)
    assert verdict_of(both).comparison.baseline_runs == 5


def test_a_saved_change_of_level_supersedes_what_was_saved_before():
    old = make_runs(wobble(250_000, 5), "old", recorded="2025-12-01T00:00:00Z")
    current = make_evidence()

    verdict = verdict_of(SubjectRuns(SUBJECT, Policy(), (*old, *current.baseline), current.new))

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.comparison.baseline_runs == 5


def test_tiny_kernels_do_not_fail_by_less_than_the_timer_resolves():
    """3 % of 1.5 us is less than 50 ns."""
    verdict = verdict_of(make_evidence(1_500, 1.03, sd=0.0005))
    slower = verdict_of(make_evidence(1_500, 1.15, sd=0.0005))

    assert not verdict.kind.fails
    assert slower.kind is VerdictKind.REGRESSION
    assert "band 3.3 % for the timer's resolution" in slower.sentence


def test_one_wild_run_does_not_make_a_regression():
    calm = make_evidence()
    wild = make_runs([*wobble(200_000, 8), 330_000], "new", recorded="2026-02-01T00:00:00Z")

    assert not verdict_of(SubjectRuns(SUBJECT, Policy(), calm.baseline, wild)).kind.fails


def test_what_was_cleared_early_counts_among_the_comparisons():
    """The same evidence weighs less among many subjects than alone."""
    slow = make_evidence(ratio=1.025)
    others = [make_evidence(subject=Subject(f"perf/test_norm.py::test_{n}"), new=1) for n in range(200)]

    alone, among = judge([slow])[0].comparison, judge([slow, *others])[0].comparison

    assert among.adjusted_p_slower >= 150 * among.p_slower
    assert alone.adjusted_p_slower == alone.p_slower


def test_suspects_are_those_who_may_regress_and_none_after_the_last_look():
    calm, slow = (
        make_evidence(ratio=ratio, new=1, subject=Subject(f"t.py::{name}"))
        for ratio, name in ((1.0, "calm"), (1.04, "slow"))
    )
    last = make_evidence(ratio=1.04, new=LOOKS[-1], subject=Subject("t.py::last"))

    assert suspects([calm, slow, last]) == (Subject("t.py::slow"),)


def test_a_change_that_noise_of_sessions_can_never_confirm_costs_no_more_runs():
    assert suspects([make_evidence(ratio=1.10, board="Intel Xeon", sd=0.01, new=1)]) == ()


def test_incomparable_runs_are_environment_whatever_their_times():
    verdict = verdict_of(make_evidence(ratio=2.0, incomparable="driver 580.1, 570.2 in the baseline"))

    assert verdict.kind is VerdictKind.ENVIRONMENT
    assert "driver 580.1, 570.2 in the baseline" in verdict.sentence
    assert suspects([make_evidence(ratio=2.0, new=1, incomparable="other driver")]) == ()


@pytest.mark.parametrize("ratio", [1.07, 1 / 1.07])
def test_throttled_new_rounds_are_environment_and_named(ratio):
    hot = Clocks(throttled=0.4, reasons=("power cap",))
    verdict = verdict_of(make_evidence(ratio=ratio, clocks=Clocks(throttled=0.0), new_clocks=hot))

    assert verdict.kind is VerdictKind.ENVIRONMENT
    assert "throttled (power cap) in 40 % of the rounds" in verdict.sentence


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (Clocks(throttled=0.5), Clocks(throttled=0.5)),
        (Clocks(throttled=0.0), Clocks(throttled=0.2)),
        (Clocks(sm_mhz=1980), Clocks(sm_mhz=1965)),
        (Clocks(sm_mhz=1980), Clocks()),
    ],
)
def test_clocks_like_the_baselines_leave_a_regression_standing(before, now):
    assert verdict_of(make_evidence(ratio=1.07, clocks=before, new_clocks=now)).kind is VerdictKind.REGRESSION


@pytest.mark.parametrize(
    ("shares", "reasons", "kind"),
    [
        ((0.95, 0.98), (POWER_CAP,), VerdictKind.REGRESSION),
        ((0.3, 0.75), (POWER_CAP,), VerdictKind.REGRESSION),
        ((0.3, 0.85), (POWER_CAP,), VerdictKind.ENVIRONMENT),
        ((0.95, 0.98), (POWER_CAP, "hardware power brake"), VerdictKind.ENVIRONMENT),
        ((0.95, 0.98), (), VerdictKind.ENVIRONMENT),
    ],
)
@pytest.mark.parametrize("is_swapped", [False, True])
def test_work_that_takes_more_power_than_the_board_has_is_judged(shares, reasons, kind, is_swapped):
    before, now = (Clocks(throttled=share, reasons=reasons) for share in shares[:: -1 if is_swapped else 1])

    assert verdict_of(make_evidence(ratio=1.07, clocks=before, new_clocks=now)).kind is kind


def test_another_clock_is_environment_with_both_values():
    verdict = verdict_of(make_evidence(ratio=1.07, clocks=Clocks(sm_mhz=1980), new_clocks=Clocks(sm_mhz=1755)))

    assert verdict.kind is VerdictKind.ENVIRONMENT
    assert "1755 MHz, 1980 MHz in the baseline (-11.4%)" in verdict.sentence


def test_an_unchanged_time_stands_though_the_gpu_was_throttled():
    assert verdict_of(make_evidence(new_clocks=Clocks(throttled=0.9))).kind is VerdictKind.UNCHANGED


@pytest.mark.parametrize("ratio", [1.07, 1 / 1.07])
@pytest.mark.parametrize("side", ["clocks", "new_clocks"])
def test_other_processes_on_the_gpu_are_environment_on_either_side(ratio, side):
    shared = {"clocks": Clocks(), "new_clocks": Clocks(), side: Clocks(foreign_processes=("pid 7 (trainer)",))}

    verdict = verdict_of(make_evidence(ratio=ratio, **shared))

    assert verdict.kind is VerdictKind.ENVIRONMENT
    assert "other processes computed on the GPU" in verdict.sentence
    assert "trainer" in verdict.sentence


def test_company_that_the_baseline_had_too_leaves_a_regression_standing():
    before, now = (Clocks(foreign_processes=(f"pid {pid} (Xorg)",)) for pid in (12, 345))

    assert verdict_of(make_evidence(ratio=1.07, clocks=before, new_clocks=now)).kind is VerdictKind.REGRESSION


def test_a_baseline_that_was_throttled_makes_no_improvement():
    hot = Clocks(throttled=0.6, reasons=("power cap",))

    verdict = verdict_of(make_evidence(ratio=0.9, clocks=hot, new_clocks=Clocks(throttled=0.0)))

    assert verdict.kind is VerdictKind.ENVIRONMENT
    assert "throttled for the baseline" in verdict.sentence


@pytest.mark.parametrize("new", [1, 3])
def test_a_few_fast_runs_are_no_improvement_yet_and_get_more(new):
    few = make_evidence(ratio=0.93, new=new)

    assert verdict_of(few).kind is VerdictKind.INCONCLUSIVE
    assert suspects([few]) == (few.subject,)


def test_boards_of_one_group_are_compared_more_sharply():
    """A slowdown of 2 % is found between boards of one group, not between boards of unknown or other groups."""
    kinds = {}
    for name, streams_ratio in (("same group", 1.001), ("unknown", None), ("other group", 1.01)):
        case = make_evidence(ratio=1.025, new_board="GPU-b", policy=Policy(band=0.01), sd=0.0005)
        (verdict,) = judge([case], canaries=make_streams({"GPU-a": 1.0}, {"GPU-b": streams_ratio}))
        kinds[name] = verdict.kind

    assert kinds == {
        "same group": VerdictKind.REGRESSION,
        "unknown": VerdictKind.INCONCLUSIVE,
        "other group": VerdictKind.INCONCLUSIVE,
    }


def test_runs_of_a_kindred_board_are_preferred_to_those_of_others():
    """Stored on a kindred board and on another 5 % slower one: compared is only what is alike."""
    case = make_evidence(new_board="GPU-c")
    near = tuple(dataclasses.replace(run, board="GPU-b") for run in case.baseline)
    far = make_evidence(210_000, board="GPU-d").baseline
    far = tuple(dataclasses.replace(run, run=f"far{run.run}", session="far") for run in far)
    streams = make_streams({"GPU-b": 1.0, "GPU-d": 1.05}, {"GPU-c": 1.002})

    (verdict,) = judge([dataclasses.replace(case, baseline=(*far, *near))], canaries=streams)

    assert verdict.comparison.baseline_runs == len(near)
    assert verdict.comparison.ratio == pytest.approx(1.0, abs=1e-3)


def test_no_new_runs_is_inconclusive():
    verdict = verdict_of(make_evidence(new=0))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert verdict.now_ns is None


def test_a_time_of_zero_is_inconclusive_and_said():
    runs = tuple(RunSummary(SUBJECT, f"r{n}", "s", "GPU-a", {"kernel": (0, 0, 0)}) for n in range(5))

    verdict = verdict_of(SubjectRuns(SUBJECT, Policy(), runs, runs))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert "has 3 of 3 rounds whose kernel time is not above 0 ns; gate it by another metric" in verdict.sentence


def test_a_metric_that_a_case_has_is_named_in_place_of_one_that_it_has_not():
    rounds = {"kernel": (0, 0, 0), "copy": (5000, 5010, 4990)}
    runs = tuple(RunSummary(SUBJECT, f"r{n}", "s", "GPU-a", rounds) for n in range(5))

    verdict = verdict_of(SubjectRuns(SUBJECT, Policy(), runs, runs))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert 'gate it by its copy time (metric="copy" in its mark)' in verdict.sentence


@pytest.mark.parametrize("band", [float("nan"), -1.0, -5.0])
def test_a_band_that_makes_no_sense_fails_nothing(band):
    verdict = verdict_of(make_evidence(ratio=1.5, policy=Policy(band=band)))

    assert verdict.kind is VerdictKind.INCONCLUSIVE


def test_now_is_the_median_of_the_new_rounds():
    verdict = verdict_of(make_evidence(200_000, new=1))

    assert verdict.now_ns == pytest.approx(200_000, rel=1e-3)


def test_another_metric_is_judged_and_named_when_asked():
    stored, new = (
        make_runs(wobble(time, count), name, metric="busy")
        for time, count, name in ((50_000, 5, "a"), (60_000, 9, "b"))
    )

    verdict = verdict_of(SubjectRuns(SUBJECT, Policy(metric="busy"), stored, new))

    assert verdict.kind is VerdictKind.REGRESSION
    assert "busy time 50.0 -> 60.0 us" in verdict.sentence


@pytest.mark.parametrize("now_ns", [90_000, 100_000, 110_000])
def test_rounds_of_one_duration_in_all_runs_are_no_measurement(now_ns):
    """No clock that counts nanoseconds gives the same time for ever: nothing may be concluded from it."""
    runs = [
        tuple(RunSummary(SUBJECT, f"{name}{n}", name, "GPU-a", {"kernel": (time,) * 10}) for n in range(count))
        for name, time, count in (("a", 100_000, 5), ("b", now_ns, 9))
    ]

    verdict = verdict_of(SubjectRuns(SUBJECT, Policy(), *runs))

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert "the very same rounds" in verdict.sentence
    assert suspects([SubjectRuns(SUBJECT, Policy(), runs[0], runs[1][:3])]) == ()


def test_rounds_made_for_these_tests_lie_where_they_say():
    assert sum(rounds_around(10_000)) / 12 == pytest.approx(10_000, rel=1e-5)


def test_a_quiet_subject_clearly_below_its_band_is_cleared_at_the_first_look():
    """+1 % is beyond its noise, but no fresh run will bring it to the band of 2 %."""
    assert suspects([make_evidence(ratio=1.01, new=1)]) == ()


def test_a_mean_moved_by_a_minority_of_runs_is_no_regression():
    """4 of 9 new runs at +9 %: significant and beyond the band on the mean, but the median stayed."""
    calm = make_evidence(stored=20)
    split = make_runs([*wobble(199_000, 5), *wobble(218_000, 4)], "new", recorded="2026-02-01T00:00:00Z")

    verdict = verdict_of(SubjectRuns(SUBJECT, Policy(), calm.baseline, split))

    assert verdict.comparison.adjusted_p_slower < 0.005
    assert verdict.comparison.ratio > 1.02
    assert verdict.kind is VerdictKind.INCONCLUSIVE


def test_a_subject_with_too_few_runs_to_fail_takes_no_share_of_the_error_rate():
    """It enters the correction with p = 1, so it cannot make the others easier to reject, and has no p itself."""
    few = make_evidence(ratio=2.0, stored=1, subject=Subject("t.py::few"))

    assert verdict_of(few).comparison.adjusted_p_slower is None
    assert verdict_of(make_evidence(ratio=2.0, new=3)).comparison.adjusted_p_slower is None
    assert judge([make_evidence(), few])[0].comparison.adjusted_p_slower is not None


def test_shares_of_throttled_rounds_that_are_no_numbers_count_for_nothing():
    evidence = make_evidence(clocks=Clocks(throttled=0.0))
    shares = itertools.cycle([math.inf, -math.inf, math.nan])
    new = tuple(dataclasses.replace(run, clocks=Clocks(throttled=next(shares))) for run in evidence.new)

    assert verdict_of(dataclasses.replace(evidence, new=new)).kind is verdict_of(evidence).kind


def test_what_time_does_not_settle_says_that_the_structure_is_unchanged_where_it_is():
    same = (ShapeUse(kernel("a"), 1, 200_000),)
    undecided = make_evidence(sd=0.06, shapes=same)
    varying = dataclasses.replace(
        undecided, new=tuple(dataclasses.replace(run, is_stable=False) for run in undecided.new)
    )

    assert verdict_of(undecided).sentence.endswith("; structure: unchanged")
    assert "structure: unchanged" not in verdict_of(varying).sentence
    assert "structure: unchanged" not in verdict_of(make_evidence(shapes=same)).sentence, "UNCHANGED says it all"
    assert "structure: unchanged" not in verdict_of(make_evidence(stored=0, shapes=same)).sentence
    other = make_evidence(incomparable="other driver", sd=0.06, shapes=same)
    assert "structure: unchanged" not in verdict_of(other).sentence
