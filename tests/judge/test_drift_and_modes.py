"""Runs without one level: those that drift, and those whose rounds fall into two modes."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pytest_nsight.judge.drift_and_modes import find_drift, find_modes, is_drift_of_share, is_repeated
from pytest_nsight.judge.judge import SubjectRuns
from pytest_nsight.judge.location import locate
from pytest_nsight.model.values import Clocks, RunSummary
from pytest_nsight.model.verdicts import VerdictKind
from tests.judge.runs import judge, make_evidence, suspects

ROUNDS = 40
RNG = np.random.default_rng(5)
NOISE = RNG.normal(0, 0.002, size=(20, ROUNDS))


def logs_of(trend: float, index: int = 0) -> np.ndarray:
    return math.log(200_000) + NOISE[index] + trend * np.linspace(0, 1, ROUNDS)


def drifting(runs: tuple[RunSummary, ...], trend: float) -> tuple[RunSummary, ...]:
    """These runs with rounds that drift by `trend`, their mean left where it was."""
    return tuple(
        replace(
            run,
            rounds={
                "kernel": tuple(np.rint(np.exp(logs_of(trend, index) - trend / 2)).astype(int).tolist()),
            },
        )
        for index, run in enumerate(runs)
    )


@pytest.mark.parametrize("trend", [-0.10, -0.015, 0.015, 0.05])
def test_a_line_of_more_than_a_percent_is_a_drift_of_its_size(trend: float) -> None:
    assert find_drift(logs_of(trend)) == pytest.approx(trend, abs=0.005)


@pytest.mark.parametrize("trend", [-0.005, 0.0, 0.005])
def test_less_than_a_percent_is_none(trend: float) -> None:
    assert find_drift(logs_of(trend)) == 0.0


def test_slope_and_interval_are_scipys_theilslopes() -> None:
    """Where the slope's interval excludes 0 and the change is over the limit, and only there."""
    for index in range(20):
        logs = logs_of(0.001 * index, index)
        slope, _, low, high = stats.theilslopes(logs, np.arange(ROUNDS), 0.99)
        change = find_drift(logs, largest=0.004)
        detrended = logs - slope * np.arange(ROUNDS)
        if np.corrcoef(detrended[1:], detrended[:-1])[0, 1] > 0:
            continue

        if abs(slope * ROUNDS) > 0.004 and (low > 0 or high < 0):
            assert change == pytest.approx(slope * ROUNDS)


def test_a_warm_up_that_ends_half_way_is_a_drift() -> None:
    logs = logs_of(0.0) + np.where(np.arange(ROUNDS) < 12, 0.03, 0.0)

    assert find_drift(logs) < -0.01


def test_rounds_that_scatter_by_percents_seldom_drift_by_chance() -> None:
    noise = np.random.default_rng(9).normal(8, 0.02, size=(2000, ROUNDS))

    assert sum(find_drift(row) != 0.0 for row in noise) / len(noise) < 0.05


def test_autocorrelated_rounds_seldom_drift_by_chance() -> None:
    noise = np.random.default_rng(11).normal(size=(1000, ROUNDS + 50))
    for index in range(1, noise.shape[1]):
        noise[:, index] = 0.7 * noise[:, index - 1] + math.sqrt(1 - 0.7**2) * noise[:, index]

    assert sum(find_drift(8 + 0.01 * row[50:]) != 0.0 for row in noise) / len(noise) < 0.08


def test_a_drifting_run_is_set_aside_and_told_and_the_others_decide() -> None:
    case = make_evidence()
    slow = drifting(case.new[:1], -0.08)
    slower = tuple(replace(run, rounds={"kernel": tuple(2 * ns for ns in run.rounds["kernel"])}) for run in slow)

    (verdict,) = judge([replace(case, new=(*slower, *case.new[1:]))])

    assert verdict.kind is VerdictKind.UNCHANGED
    assert verdict.comparison.new_runs == len(case.new) - 1
    assert "1 run set aside, drifting" in verdict.sentence


def test_a_first_run_that_drifts_asks_for_another() -> None:
    case = make_evidence(ratio=1.10, new=1)

    assert suspects([replace(case, new=drifting(case.new, 0.05))]) == (case.subject,)


@pytest.mark.parametrize("side", ["baseline", "new"])
def test_where_every_run_of_a_side_drifts_the_machine_is_blamed(side: str) -> None:
    case = make_evidence(ratio=1.10)

    (verdict,) = judge([replace(case, **{side: drifting(getattr(case, side), -0.08)})])

    assert verdict.kind is VerdictKind.ENVIRONMENT
    assert "the time drifts within every run" in verdict.sentence
    assert "-8." in verdict.sentence or "-7." in verdict.sentence


def two_modes(gap: float = 0.03, period: int = 2) -> tuple[int, ...]:
    is_slow = (np.arange(ROUNDS) // period) % 2
    return tuple(np.rint(np.exp(logs_of(0.0) + gap * is_slow)).astype(int).tolist())


def test_two_modes_are_told_apart_by_size_and_share() -> None:
    found = find_modes(np.log(two_modes()))

    assert found.gap == pytest.approx(0.03, abs=0.002)
    assert found.share == pytest.approx(0.5)
    assert find_modes(np.log(two_modes(gap=0.010))) is None
    assert find_modes(np.log(np.rint(np.exp(logs_of(0.0))))) is None


def test_rounds_of_one_mode_are_seldom_taken_for_two() -> None:
    noise = np.random.default_rng(13).normal(13, 0.02, size=(1000, ROUNDS))

    assert sum(find_modes(row) is not None for row in noise) <= 5


def test_ticks_of_the_timer_are_no_modes() -> None:
    """A kernel of 2 us that is read in steps of 32 ns jumps by 1.6 % without doing so."""
    assert find_modes(np.log(np.tile([2016.0, 2048.0], 20))) is None


def test_long_stays_in_a_mode_make_the_location_less_sure_than_quick_hops() -> None:
    quick, slow = (find_modes(np.log(two_modes(period=period))) for period in (1, 10))

    assert slow.error > 2 * quick.error


@pytest.mark.parametrize(("mhz", "is_clock"), [((1980, 1755), True), ((1980, 1980), False)])
def test_modes_are_the_clocks_where_the_clock_differs_between_them(mhz: tuple[int, int], is_clock: bool) -> None:
    clocks = tuple(mhz[(index // 2) % 2] for index in range(ROUNDS))

    assert find_modes(np.log(two_modes()), clocks).is_clock is is_clock
    assert find_modes(np.log(two_modes())).is_clock is None


def hopping(case: SubjectRuns, clocks: Clocks) -> SubjectRuns:
    """New runs in two modes, no two of them alike."""
    new = tuple(
        replace(run, rounds={"kernel": two_modes(gap=0.03)}, clocks=clocks, run=f"n{n}")
        for n, run in enumerate(case.new)
    )
    varied = tuple(
        replace(run, rounds={"kernel": tuple(ns + 7 * n for ns in run.rounds["kernel"])})
        for n, run in enumerate(new)
    )
    return replace(case, new=varied)


def test_modes_of_the_clock_are_environment_and_ask_for_another_run() -> None:
    mhz = tuple(1980 if (index // 2) % 2 == 0 else 1755 for index in range(ROUNDS))
    case = hopping(make_evidence(), Clocks(round_mhz=mhz))

    (verdict,) = judge([case])

    assert verdict.kind is VerdictKind.ENVIRONMENT
    assert "the clock changed within every run of this session" in verdict.sentence
    assert suspects([replace(case, new=case.new[:1])]) == (case.subject,)


def test_modes_of_the_kernel_keep_its_location_widen_its_variance_and_are_told() -> None:
    calm = make_evidence(ratio=math.exp(0.015))
    modal = hopping(calm, Clocks(round_mhz=(1980,) * ROUNDS))

    (before,), (after,) = judge([calm]), judge([modal])

    assert after.comparison.ratio == pytest.approx(before.comparison.ratio, rel=0.01)
    assert after.comparison.run_sd > before.comparison.run_sd
    assert "rounds fall into two modes" in after.sentence


def change_share(first: float, last: float, seed: int, rounds: int = 100) -> np.ndarray:
    """Logs of rounds on two levels, 5 % apart; the share of the slower one goes from `first` to `last`."""
    rng = np.random.default_rng(seed)
    is_slow = rng.random(rounds) < np.linspace(first, last, rounds)
    return math.log(26_000) + rng.normal(0, 0.007, rounds) + 0.05 * is_slow


def lines(noise: float, seed: int) -> np.ndarray:
    """Logs of 100 rounds that drift by 3 % along a line."""
    return math.log(26_000) + np.random.default_rng(seed).normal(0, noise, 100) + np.linspace(0, 0.03, 100)


def test_a_drift_of_the_share_of_slow_rounds_is_told_from_lines_warm_ups_and_outliers() -> None:
    alternating = [logs for seed in range(200) if find_drift(logs := change_share(0.2, 0.8, seed))]
    warm_up = logs_of(0.0) + 0.06 * (np.arange(ROUNDS) < 12)
    spiked = lines(0.002, 0) + 0.15 * (np.random.default_rng(1).random(100) < 0.12)

    found = [is_drift_of_share(logs, find_drift(logs)) for logs in alternating]

    assert len(found) > 100
    assert sum(found) > 0.9 * len(found)
    for noise in (0.001, 0.003, 0.008):
        drifting_lines = [logs for seed in range(50) if find_drift(logs := lines(noise, seed))]
        assert len(drifting_lines) > 40
        assert not any(is_drift_of_share(logs, find_drift(logs)) for logs in drifting_lines)
    for logs in (warm_up, spiked):
        assert find_drift(logs) != 0.0
        assert not is_drift_of_share(logs, find_drift(logs))


def test_a_run_whose_share_of_slow_rounds_drifts_has_a_level() -> None:
    (run,) = make_evidence(new=1).new
    logs = next(logs for seed in range(50) if find_drift(logs := change_share(0.1, 0.9, seed)))
    rounds = tuple(np.rint(np.exp(logs)).astype(int).tolist())

    assert locate(replace(run, rounds={"kernel": rounds}), "kernel").has_one_level


def spike(run: RunSummary) -> RunSummary:
    """The run with every eighth round 15 % slower."""
    return replace(
        run,
        rounds={"kernel": tuple(ns + ns * 15 // 100 * (n % 8 == 3) for n, ns in enumerate(run.rounds["kernel"]))},
    )


def test_outliers_in_one_run_make_no_warm_up_of_another_count() -> None:
    unchanged, slower = make_evidence(), make_evidence(ratio=1.05)
    warming = drifting(unchanged.new, -0.08)
    stored = (spike(slower.baseline[0]), *slower.baseline[1:3], *drifting(slower.baseline[3:], -0.12))

    (blamed,) = judge([replace(unchanged, new=(spike(warming[0]), *warming[1:]))])
    (found,) = judge([replace(slower, baseline=stored)])

    assert blamed.kind is VerdictKind.ENVIRONMENT, blamed.sentence
    assert found.kind is VerdictKind.REGRESSION, found.sentence


def test_a_drift_on_a_cpu_must_be_larger() -> None:
    case = make_evidence(new=1, board="Intel Xeon")
    (run,) = drifting(case.new, 0.05)

    assert locate(run, "kernel").has_one_level
    assert not locate(replace(run, board="GPU-a"), "kernel").has_one_level


def test_repeats_are_equal_rounds_in_several_runs_and_not_a_few_by_chance() -> None:
    assert is_repeated([np.array([5.0, 6.0]), np.array([5.0, 6.0])])
    assert not is_repeated([np.array([5.0, 6.0]), np.array([5.0, 7.0])])
    assert not is_repeated([np.array([5.0]), np.array([5.0]), np.array([5.0])])
    assert not is_repeated([np.array([5.0] * 40)])


@pytest.mark.parametrize("count", [2001, 9999, 100_000])
def test_many_rounds_take_little_memory_and_drift_as_few_do(count: int) -> None:
    noise = np.random.default_rng(7).normal(0, 0.002, size=count)
    steady = math.log(200_000) + noise
    tracemalloc.start()

    still, drift = find_drift(steady), find_drift(steady + 0.03 * np.linspace(0, 1, count))

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert still == 0.0
    assert drift == pytest.approx(0.03, abs=0.002)
    assert peak < 500 << 20
