from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import special, stats

from pytest_nsight.judge.contrast import contrast, pool_degrees, upper_quantile, upper_tail
from pytest_nsight.judge.noise import (
    BOARD_PRIOR_DF,
    CPU,
    LONG_KERNELS,
    SESSION_PRIOR_DF,
    SHIPPED_PRIOR,
    SHORT_KERNELS,
    Component,
    Prior,
    _invert_trigamma,
    estimate_noise,
    expected_spread,
    fit_prior,
)
from tests.judge.runs import place

NO_PRIOR = Prior(1.0, 0.0)
logs = st.lists(st.floats(5, 15), min_size=2, max_size=9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Precision loss")  # scipy's, on groups that hardly vary
@given(logs, logs)
def test_one_session_without_prior_is_students_t_test(before, now):
    """With no session between the sides and a prior of no weight the gate's test is scipy's."""
    baseline, new = place(before, "same"), place(now, "same")
    found = contrast(baseline, new, estimate_noise(baseline, new, NO_PRIOR, LONG_KERNELS))
    assume(found.run_variance > 1e-6)

    expected = stats.ttest_ind(now, before, equal_var=True, alternative="greater")

    assert found.p_slower == pytest.approx(expected.pvalue, rel=1e-6)
    assert found.degrees_of_freedom == pytest.approx(expected.df)
    assert found.p_faster == pytest.approx(1 - expected.pvalue, abs=1e-9)


@given(st.floats(-60, 60), st.floats(1, 40))
def test_tail_is_that_of_scipys_t(statistic, df):
    assert upper_tail(statistic, df) == pytest.approx(stats.t.sf(statistic, df), rel=1e-6, abs=1e-300)


@given(st.floats(1e-7, 0.4), st.floats(1, 40))
def test_quantile_is_that_of_scipys_t(tail, df):
    assert upper_quantile(tail, df) == pytest.approx(stats.t.isf(tail, df), rel=1e-6)


@given(logs, logs)
def test_mirrored_times_mirror_the_test(before, now):
    """Regression and improvement are one statistic seen from two sides."""
    sides = []
    for sign in (1, -1):
        baseline, new = place([sign * v for v in before], "a"), place([sign * v for v in now], "b")
        sides.append(contrast(baseline, new, estimate_noise(baseline, new, SHIPPED_PRIOR, LONG_KERNELS)))

    assert sides[0].difference == pytest.approx(-sides[1].difference)
    assert sides[0].p_slower == pytest.approx(sides[1].p_faster)


def test_a_session_between_the_sides_counts_once_for_each():
    baseline, new = place([10.0, 10.001, 10.002], "a"), place([10.0, 10.001], "b")
    noise = estimate_noise(baseline, new, SHIPPED_PRIOR, LONG_KERNELS)

    assert contrast(baseline, new, noise).level_variance == pytest.approx(2 * LONG_KERNELS.session**2)


def test_another_board_adds_the_board_variance_of_both():
    baseline, new = place([10.0, 10.001, 10.002], "a"), place([10.0, 10.001], "b", board="GPU-b")
    noise = estimate_noise(baseline, new, SHIPPED_PRIOR, LONG_KERNELS)

    expected = 2 * LONG_KERNELS.session**2 + 2 * LONG_KERNELS.board**2
    assert contrast(baseline, new, noise).level_variance == pytest.approx(expected)


def test_several_stored_sessions_average_their_session_effects():
    baseline = (*place([10.0, 10.0], "a"), *place([10.0, 10.0], "b"), *place([10.0, 10.0], "c"))
    new = place([10.0], "d")
    noise = estimate_noise(baseline, new, SHIPPED_PRIOR, LONG_KERNELS)

    expected = noise.session.variance * (1 + 3 / 9)
    assert contrast(baseline, new, noise).level_variance == pytest.approx(expected)


def test_sessions_that_differ_raise_the_session_variance_and_not_the_run_variance():
    near = [*place([10.0, 10.001], "a"), *place([10.0, 10.001], "b"), *place([10.0, 10.001], "c")]
    far = [*place([10.0, 10.001], "a"), *place([10.02, 10.021], "b"), *place([9.98, 9.981], "c")]
    new = place([10.0, 10.001], "d")
    calm, wild = (estimate_noise(runs, new, SHIPPED_PRIOR, LONG_KERNELS) for runs in (near, far))

    assert wild.run.variance == pytest.approx(calm.run.variance)
    assert wild.session.variance > 10 * calm.session.variance
    assert wild.session.degrees_of_freedom == SESSION_PRIOR_DF + 2


def test_stored_boards_that_differ_raise_the_board_variance():
    baseline = [*place([10.0, 10.001], "a", "GPU-a"), *place([10.08, 10.081], "b", "GPU-b")]
    noise = estimate_noise(baseline, place([10.0], "c"), SHIPPED_PRIOR, LONG_KERNELS)

    assert noise.board.variance > 4 * LONG_KERNELS.board**2
    assert noise.board.degrees_of_freedom == BOARD_PRIOR_DF


def test_stored_boards_that_agree_leave_the_board_variances_as_expected():
    baseline = [
        replace(run, board_group="GPU-a")
        for board in "abcd"
        for run in place([10.0, 10.001], board, f"GPU-{board}")
    ]
    noise = estimate_noise(baseline, place([10.0], "e", "GPU-e"), SHIPPED_PRIOR, LONG_KERNELS)

    assert noise.board == Component(LONG_KERNELS.board**2, BOARD_PRIOR_DF)
    assert noise.board_group == Component(LONG_KERNELS.board_group**2, BOARD_PRIOR_DF)


def test_session_variance_is_estimated_without_bias():
    """Simulated sessions of three unequal sizes give back their variance, prior weight removed."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(1500):
        shifts = rng.normal(0, 0.01, 3)
        baseline = [
            location
            for index, (shift, runs) in enumerate(zip(shifts, (2, 4, 6), strict=True))
            for location in place(10 + shift + rng.normal(0, 0.002, runs), f"s{index}")
        ]
        noise = estimate_noise(baseline, place([10.0], "new"), SHIPPED_PRIOR, LONG_KERNELS)
        prior_part = SESSION_PRIOR_DF * LONG_KERNELS.session**2
        found.append((noise.session.variance * (SESSION_PRIOR_DF + 2) - prior_part) / 2)

    assert np.mean(found) == pytest.approx(1e-4, rel=0.1)


def test_rounds_noisier_than_the_runs_set_the_floor_of_the_run_variance():
    quiet = place([10.0] * 5)
    loud = [type(item)(item.run, "s", item.board, 10.0, 0.05, item.durations_ns) for item in quiet]

    assert estimate_noise(loud, loud, SHIPPED_PRIOR, LONG_KERNELS).run.variance == pytest.approx(0.05**2)


@pytest.mark.parametrize(
    ("duration_ns", "board", "spread"),
    [
        (26_000, "GPU-8a", SHORT_KERNELS),
        (260_000, "GPU-8a", LONG_KERNELS),
        (260_000, "MIG-8a", LONG_KERNELS),
        (260_000, "Intel Xeon", CPU),
    ],
)
def test_expected_spread_follows_duration_and_kind_of_board(duration_ns, board, spread):
    assert expected_spread(duration_ns, board) == spread


@given(st.floats(1e-3, 1e4))
def test_trigamma_is_inverted(x):
    assert _invert_trigamma(float(special.polygamma(1, x))) == pytest.approx(x, rel=1e-6)


def test_prior_finds_scale_and_weight_of_a_large_suite():
    """Variances drawn from the assumed model (scaled inverse chi-squared) give back its parameters."""
    rng = np.random.default_rng(5)
    true = 4.0 * 5 / rng.chisquare(5, 4000)
    ratios = true * rng.chisquare(4, 4000) / 4

    prior = fit_prior(list(ratios), [4.0] * 4000)

    assert prior.scale == pytest.approx(4.0, rel=0.1)
    assert prior.degrees_of_freedom == pytest.approx(5, rel=0.15)


def test_prior_of_equal_variances_is_capped():
    rng = np.random.default_rng(6)

    assert fit_prior(list(rng.chisquare(4, 500) / 4), [4.0] * 500).degrees_of_freedom == 8.0


@pytest.mark.parametrize("ratios", [[1.0] * 9, [0.0] * 50, []])
def test_small_or_lifeless_suites_use_the_shipped_prior(ratios):
    assert fit_prior(ratios, [4.0] * len(ratios)) == SHIPPED_PRIOR


def test_satterthwaite_of_one_part_is_its_own_and_of_two_equal_parts_their_sum():
    assert pool_degrees((2.0, 7.0), (0.0, 3.0)) == pytest.approx(7.0)
    assert pool_degrees((2.0, 7.0), (2.0, 7.0)) == pytest.approx(14.0)


def test_session_means_closer_than_their_runs_allow_count_as_no_session_effect():
    baseline = [*place([9.9, 10.1], "a"), *place([9.9, 10.1], "b"), *place([9.9, 10.1], "c")]
    noise = estimate_noise(baseline, place([10.0], "d"), SHIPPED_PRIOR, LONG_KERNELS)

    expected = SESSION_PRIOR_DF * LONG_KERNELS.session**2 / (SESSION_PRIOR_DF + 2)
    assert noise.session.variance == pytest.approx(expected)


def test_what_nine_runs_would_show_is_foretold_from_one():
    """With the variances held fixed, the forecast is what the later contrast has."""
    baseline, new = place([10.0, 10.001, 10.002], "a"), place([10.0] * 9, "b")
    later = contrast(baseline, new, estimate_noise(baseline, new, SHIPPED_PRIOR, LONG_KERNELS))
    run = replace(later.noise.run, degrees_of_freedom=later.run_df - 8)
    early = replace(later, new=later.new[:1], noise=replace(later.noise, run=run))

    assert early.variance_with(9) == pytest.approx(later.standard_error**2)
    assert early.degrees_with(9) == pytest.approx(later.degrees_of_freedom)


def test_the_scatter_of_runs_is_taken_off_the_scatter_of_session_means():
    baseline = [*place([9.99, 10.01], "a"), *place([10.01, 10.03], "b")]
    noise = estimate_noise(baseline, place([10.0], "d"), NO_PRIOR, LONG_KERNELS)

    own = 0.02**2 / 2 - noise.run.variance / 2
    expected = (SESSION_PRIOR_DF * LONG_KERNELS.session**2 + own) / (SESSION_PRIOR_DF + 1)
    assert noise.run.variance == pytest.approx(0.01**2 * 2)
    assert noise.session.variance == pytest.approx(expected)
