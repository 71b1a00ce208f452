"""Distinct values and ranks, against numpy's own."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_nsight.model.sorted_keys import distinct, rank_groups, rank_values

COLUMNS = {
    "close together": np.array([7, 5, 7, 6, 5], np.int32),
    "far apart": np.array([2**62, -5, 2**62, 0], np.int64),
    "below zero": np.array([-3, -2, -3], np.int32),
    "ends of the type": np.array([2**31 - 1, -(2**31)], np.int32),
    "one": np.array([9], np.int64),
    "none": np.empty(0, np.int64),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_distinct_values_and_ranks_are_those_of_numpy(name: str) -> None:
    values = COLUMNS[name]
    expected, places = np.unique(values, return_inverse=True)

    found, ranks = rank_values(values)

    assert distinct(values).tolist() == found.tolist() == expected.tolist()
    assert ranks.tolist() == places.tolist()
    assert found.dtype == ranks.dtype == np.int64


def test_groups_of_random_pairs_rank_as_their_pairs() -> None:
    chance = np.random.default_rng(5)
    major, minor = chance.integers(-3, 3, 500), chance.integers(0, 2**40, 500) % 7 * 2**33
    pairs = list(zip(major.tolist(), minor.tolist(), strict=True))

    ranks, groups = rank_groups(major, minor)

    order = sorted(set(pairs))
    assert ranks.tolist() == [order.index(pair) for pair in pairs]
    assert groups == len(order)
