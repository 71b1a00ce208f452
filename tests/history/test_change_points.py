"""The E-divisive method finds changes where they are, and seldom where nothing changes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from pytest_nsight.history.change_points import FEWEST_OBSERVATIONS, _divide, find_change_points


def statistic_by_definition(values: np.ndarray, middle: int, end: int) -> float:
    """The scaled energy distance of the paper, equations 6 and 7 with an exponent of 1."""
    left, right = values[:middle], values[middle:end]
    between = np.mean([abs(a - b) for a in left for b in right])
    within = [np.mean([abs(a - b) for a, b in itertools.combinations(part, 2)]) for part in (left, right)]
    return left.size * right.size / (left.size + right.size) * (2 * between - sum(within))


@pytest.mark.parametrize("seed", range(4))
def test_the_best_division_is_that_of_the_definition(seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=10)
    candidates = {
        (middle, end): statistic_by_definition(values, middle, end)
        for middle in range(2, 9)
        for end in range(middle + 2, 11)
    }
    best = max(candidates, key=lambda one: candidates[one])

    found = _divide(values)

    assert found is not None
    assert found.statistic == pytest.approx(candidates[best])
    assert found.index == best[0]


@pytest.mark.parametrize("size", [8, 9, 12, 40])
def test_a_step_is_found_where_it_is(size: int) -> None:
    values = np.random.default_rng(size).normal(0, 0.001, size)
    values[size // 2 :] += 0.02

    (change,) = find_change_points(values)

    assert change.index == size // 2
    assert change.p_value <= 0.05


@pytest.mark.parametrize(("size", "first"), [(8, 2), (8, 6), (9, 2), (9, 7), (10, 2), (12, 2)])
def test_a_step_that_chance_makes_in_one_of_twenty_orders_is_no_change(size: int, first: int) -> None:
    """Orders in which the same observations stand apart at one of both ends: 2 of 28, 36, 45 and 66."""
    exact = 2 / math.comb(size, first)
    for seed in range(3):
        values = np.random.default_rng(seed).normal(0, 0.001, size)
        values[first:] += 1.0

        found = find_change_points(values)

        assert all(change.p_value >= exact for change in found)
        assert exact <= 0.05 or not found


def test_two_steps_are_found_even_if_the_second_takes_the_first_back() -> None:
    values = np.random.default_rng(3).normal(0, 0.001, 30)
    values[10:20] += 0.03

    assert [change.index for change in find_change_points(values)] == [10, 20]


@pytest.mark.slow
def test_unchanged_sequences_have_change_points_in_about_one_of_twenty() -> None:
    rng = np.random.default_rng(5)
    found = sum(bool(find_change_points(rng.standard_t(4, size=12))) for _ in range(100))

    assert stats.binomtest(found, 100, 0.05, alternative="greater").pvalue > 0.001


def test_few_observations_and_equal_ones_have_none() -> None:
    step = np.array([0.0] * 4 + [1.0] * (FEWEST_OBSERVATIONS - 5))

    assert find_change_points(step) == ()
    assert find_change_points(np.ones(20)) == ()
    assert find_change_points(np.array([])) == ()


def test_the_same_values_give_the_same_points() -> None:
    values = np.random.default_rng(8).normal(size=30)
    values[12:] += 1.5

    assert find_change_points(values) == find_change_points(values)
