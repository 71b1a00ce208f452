"""Intervals cover what they say."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_nsight.calibrate.false_alarms import Rate, bootstrap_sessions


@pytest.mark.parametrize(
    ("hits", "attempts", "interval"),
    # The counts of stats.md's plan: 0 in 299 and the like bound a rate by 1 %, here two-sided.
    [(0, 100, (0.0, 0.036217)), (1, 473, (0.0000535, 0.011723)), (50, 100, (0.398321, 0.601679))],
)
def test_exact_intervals(hits: int, attempts: int, interval: tuple[float, float]) -> None:
    assert Rate(hits, attempts).interval == pytest.approx(interval, rel=1e-3)


def test_a_rate_of_nothing_is_not_a_number_and_says_so() -> None:
    assert np.isnan(Rate(0, 0).value)
    assert Rate(0, 0).interval == (0.0, 1.0)
    assert Rate(0, 0).write() == "-"


def test_one_bad_session_widens_the_interval_far_beyond_the_exact_one() -> None:
    rng = np.random.default_rng(1)
    pairs = [(f"s{a}", f"s{b}") for a in range(6) for b in range(6) if a != b] * 100
    hits = ["s3" in pair for pair in pairs]

    low, high = bootstrap_sessions(hits, pairs, rng) or (0, 0)

    rate = Rate(sum(hits), len(hits))
    assert high - low > 5 * (rate.interval[1] - rate.interval[0])
    assert low < rate.value < high


def test_where_sessions_do_not_matter_the_interval_is_about_the_exact_one() -> None:
    rng = np.random.default_rng(2)
    pairs = [(f"s{a}", f"s{b}") for a in range(12) for b in range(12) if a != b] * 10
    hits = [bool(hit) for hit in rng.random(len(pairs)) < 0.3]

    low, high = bootstrap_sessions(hits, pairs, rng) or (0, 0)

    exact = Rate(sum(hits), len(hits)).interval
    assert (high - low) == pytest.approx(exact[1] - exact[0], rel=0.6)


@pytest.mark.parametrize("hit", [True, False])
def test_resamples_that_all_agree_have_no_interval(hit: bool) -> None:
    pairs = [("a", "b"), ("b", "c"), ("c", "a")]

    assert bootstrap_sessions([hit] * 3, pairs, np.random.default_rng(1)) is None


def test_every_session_of_a_resample_counts() -> None:
    rng = np.random.default_rng(3)
    draws = [rng.permutation(12)[:4] for _ in range(600)]
    resamples = [tuple(f"s{one}" for one in draw) for draw in draws]
    hits = ["s3" in resample for resample in resamples]

    # One session, stored or new, is behind every hit: the rate is 0 where it is not drawn.
    low, high = bootstrap_sessions(hits, resamples, np.random.default_rng(1)) or (1, 1)
    assert low == 0
    assert high > 2 * np.mean(hits)


def test_two_sessions_are_too_few() -> None:
    assert bootstrap_sessions([True, False], [("a", "b"), ("b", "a")], np.random.default_rng(1)) is None
