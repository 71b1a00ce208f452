"""Rounds end when their own error is small, and not before there are enough to know it."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.worker.pacing import (
    AUDIT,
    MOST,
    SMALL_ERROR,
    USUAL,
    StoppingRule,
    is_enough,
    is_over,
    relative_error,
)

OVERHEAD_NS = 10_000


def walls(count: int, kernel_ns: float, sd: float, seed: int = 1, drift: float = 0.0) -> list[int]:
    """Rounds of a kernel with normal noise, on top of the overhead."""
    noise = random.Random(seed)
    return [
        round(OVERHEAD_NS + kernel_ns * math.exp(noise.gauss(0, sd) + drift * index / count))
        for index in range(count)
    ]


def rounds_taken(kernel_ns: float, sd: float, run_sd: float = 0.001) -> int:
    durations = walls(MOST, kernel_ns, sd)
    return next(n for n in range(MOST + 1) if is_enough(durations[:n], OVERHEAD_NS, run_sd, 0))


def test_quiet_rounds_end_at_the_fewest_and_noisy_ones_later() -> None:
    taken = [rounds_taken(300_000, sd) for sd in (0.001, 0.009, 0.1)]

    assert taken[0] == USUAL.fewest
    assert taken == sorted(taken)
    assert taken[2] == MOST


def test_a_noisier_machine_asks_for_less() -> None:
    assert rounds_taken(300_000, 0.03, run_sd=0.03) < rounds_taken(300_000, 0.03, run_sd=0.001)


def test_the_error_is_the_spread_of_the_locations_of_such_runs() -> None:
    many = [walls(60, 300_000, 0.01, seed) for seed in range(600)]
    locations = [statistics.fmean(sorted(one)[15:45]) for one in many]
    estimates = [relative_error(one, OVERHEAD_NS) for one in many]

    assert statistics.fmean(e for e in estimates if e is not None) == pytest.approx(
        statistics.stdev(locations) / 300_000, rel=0.15
    )


def test_a_drift_counts_as_error() -> None:
    still, drifting = (relative_error(walls(60, 300_000, 0.002, drift=d), OVERHEAD_NS) for d in (0.0, 0.05))

    assert still is not None
    assert drifting is not None
    assert still < SMALL_ERROR < drifting


def test_rounds_hardly_longer_than_the_overhead_tell_nothing_and_get_all_rounds() -> None:
    assert relative_error(walls(60, 2_000, 0.0), OVERHEAD_NS) is None
    assert rounds_taken(2_000, 0.0) == MOST


@pytest.mark.parametrize("rule", [USUAL, AUDIT])
@given(
    durations=st.lists(st.integers(0, 2**40), max_size=120),
    overhead_ns=st.integers(0, 2**30),
    run_sd=st.floats(0, 1),
    elapsed_ns=st.integers(0, 2**40),
)
def test_whatever_the_rounds_there_are_between_the_fewest_and_the_most(
    rule: StoppingRule, durations: list[int], overhead_ns: int, run_sd: float, elapsed_ns: int
) -> None:
    enough = is_enough(durations, overhead_ns, run_sd, elapsed_ns, rule)

    assert enough or len(durations) < MOST
    assert not enough or len(durations) >= rule.fewest
    if elapsed_ns > rule.long_ns:
        assert enough == (len(durations) >= rule.fewest)


@pytest.mark.parametrize("elapsed_ns", [0, 600_000_000])
def test_an_audit_takes_half_as_many_rounds_unless_the_case_is_short_and_noisy(elapsed_ns: int) -> None:
    quiet, noisy = walls(MOST, 30_000_000, 0.0005), walls(MOST, 30_000, 0.1)

    def count(durations: list[int], rule: StoppingRule) -> int:
        return next(n for n in range(MOST + 1) if is_over(durations[:n], rule, OVERHEAD_NS, 0.001, elapsed_ns))

    assert 2 * count(quiet, AUDIT) == count(quiet, USUAL) == USUAL.fewest
    assert count(noisy, AUDIT) == (MOST if not elapsed_ns else AUDIT.fewest)
    assert is_over(quiet[:7], 7, OVERHEAD_NS, 0.001, elapsed_ns)
