from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_nsight.judge.location import (
    Location,
    Unlocated,
    explain_no_level,
    has_one_level,
    locate,
    resolution_ns,
    typical_ns,
)
from pytest_nsight.judge.round_statistics import midmean, within_run_error
from tests.judge.runs import judge, make_evidence, make_runs, place, rounds_around


@pytest.mark.slow
@given(st.lists(st.floats(1, 1e9), min_size=1, max_size=60))
def test_midmean_is_scipys_trimmed_mean(values):
    array = np.log(np.array(values))

    assert float(midmean(array)) == pytest.approx(stats.trim_mean(array, 0.25), rel=1e-12, abs=1e-12)


def test_location_ignores_a_quarter_of_the_rounds_gone_wild():
    calm = rounds_around(10_000, count=40)
    (run,) = make_runs([10_000], "s")
    wild = tuple(value * 50 if index < 9 else value for index, value in enumerate(calm))

    found = locate(type(run)(run.subject, "r", "s", run.board, {"kernel": wild}), "kernel")

    assert isinstance(found, Location)
    assert np.exp(found.log_ns) == pytest.approx(10_000, rel=1e-3)


def test_autocorrelated_rounds_have_a_larger_error_than_their_spread_alone_tells():
    rng = np.random.default_rng(1)
    naive, batched = [], []
    for _ in range(200):
        noise = np.zeros(60)
        for index in range(1, 60):
            noise[index] = 0.8 * noise[index - 1] + rng.normal()
        naive.append(noise.std(ddof=1) / np.sqrt(60))
        batched.append(within_run_error(noise))

    assert np.mean(batched) > 1.5 * np.mean(naive)


@pytest.mark.parametrize("rounds", [(), (0, 0, 0), (100, 0, 100), (-5, 5), (float("nan"), 1.0), (10**400,), ("x",)])
def test_rounds_without_a_time_give_a_reason_and_no_location(rounds):
    (run,) = make_runs([1000], "s")

    found = locate(type(run)(run.subject, "r7", "s", run.board, {"kernel": rounds}), "kernel")

    assert isinstance(found, Unlocated)
    assert "r7" in found.text


def test_a_metric_that_the_collector_cannot_see_is_named_in_the_reason():
    (run,) = make_runs([1000], "s")

    assert locate(run, "gap").text == "run s-0 has no rounds of gap time"


def _with_rounds(values):
    (location,) = place([1.0])
    return Location(location.run, "s", location.board, 1.0, 0.0, np.array(values, dtype=float))


@pytest.mark.parametrize(
    ("rounds", "resolution"),
    [
        ([2624 + 32 * step for step in range(12)], 64.0),
        ([100_000 + 1000 * step for step in range(12)], 2000.0),
        ([5001 + 7 * step * step for step in range(12)], 50.0),
        ([100_000] * 12, 50.0),
        ([100_000, 200_000] * 6, 50.0),
        ([100_000 + 5000 * step for step in range(12)], 50.0),
    ],
)
def test_resolution_is_two_ticks_of_a_timer_that_shows_itself(rounds, resolution):
    assert resolution_ns([_with_rounds(rounds)]) == resolution


def test_the_typical_time_is_that_of_the_runs_that_are_compared() -> None:
    """A save shows what the next comparison takes for the baseline, and the history shows the same."""
    still = make_runs([100_000.0, 400_000.0], "a")
    drifting = replace(still[0], run="d", rounds={"kernel": tuple(100_000 + 5_000 * step for step in range(20))})

    assert typical_ns(still, "kernel") == pytest.approx(200_000, rel=1e-4), "the geometric mean"
    disturbed = replace(drifting, clocks=replace(drifting.clocks, processor_lost=0.5))

    assert typical_ns([*still, drifting], "kernel") == typical_ns(still, "kernel")
    assert typical_ns([*still, disturbed], "kernel") == typical_ns(still, "kernel")
    noisy = replace(still[1], clocks=disturbed.clocks)
    assert typical_ns([still[0], noisy], "kernel") == pytest.approx(100_000, rel=1e-4)
    assert typical_ns([drifting], "kernel") > 100_000
    assert (has_one_level(still[0], "kernel"), has_one_level(drifting, "kernel")) == (True, False)
    assert explain_no_level([*still, drifting], "kernel") == ""
    assert "the time drifts within every run" in explain_no_level([drifting], "kernel")


@pytest.mark.parametrize("stored", [5, 0])
def test_a_verdict_shows_the_typical_time_of_its_new_runs(stored: int) -> None:
    evidence = make_evidence(stored=stored, new=5, sd=0.3)

    (verdict,) = judge([evidence])

    assert verdict.now_ns == pytest.approx(typical_ns(evidence.new, "kernel"))
    if verdict.comparison is not None:
        assert verdict.comparison.now_ns == pytest.approx(verdict.now_ns)
        assert verdict.comparison.baseline_ns == pytest.approx(typical_ns(evidence.baseline, "kernel"))
