"""Sequences that recur, against a plain search, and of long rows."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_nsight.analysis.recurrences import FEWEST, LONGEST, find_recurrences
from pytest_nsight.model.trace import Flags, Ints


def count_plainly(wanted: Ints, numbers: Ints, follows: Flags) -> int:
    """How often a sequence occurs, from left to right, without overlaps."""
    place = found = 0
    while place + len(wanted) <= len(numbers):
        end = place + len(wanted)
        is_here = bool((numbers[place:end] == wanted).all()) and bool(follows[place : end - 1].all())
        found += is_here
        place = end if is_here else place + 1
    return found


@pytest.mark.parametrize("kinds", [1, 2, 3, 5])
@pytest.mark.parametrize("share", [0.7, 1.0])
def test_every_sequence_occurs_as_often_as_it_says(kinds: int, share: float) -> None:
    random = np.random.default_rng(kinds)
    for repeats in (1, 4) * 20:
        numbers = np.tile(random.integers(0, kinds, int(random.integers(2, 60))), repeats)
        follows = random.random(len(numbers) - 1) <= share
        for one in find_recurrences(numbers, follows):
            wanted = numbers[one.places[0] : one.places[0] + one.length]
            assert len(one.places) == count_plainly(wanted, numbers, follows) >= FEWEST
            assert follows[one.joins].all()
            assert len(np.unique(one.joins)) == len(one.joins)


def test_a_chain_is_one_sequence_and_its_beginning_another_where_it_occurs_alone() -> None:
    """The chain of six occurs 9 times, its first two numbers 30 times more."""
    numbers = np.array([*(1, 2, 3, 4, 5, 6, 0) * 9, *(1, 2, 0) * 30])
    follows = (numbers[1:] != 0) & (numbers[:-1] != 0)
    found = find_recurrences(numbers, follows)

    assert {(one.length, len(one.places)) for one in found} == {(6, 9), (2, 39)}


def test_a_chain_that_is_longer_than_a_sequence_is_cut_into_several() -> None:
    chain = 2 * LONGEST + 3
    numbers = np.tile(np.append(np.arange(1, chain + 1), 0), 5)
    follows = (numbers[1:] != 0) & (numbers[:-1] != 0)
    found = find_recurrences(numbers, follows)

    assert {len(one.places) for one in found} == {5}
    assert sum(one.length - 1 for one in found) == chain - 1
    assert len(np.unique(np.concatenate([one.joins for one in found]))) == 5 * (chain - 1)


def test_nothing_follows_nothing() -> None:
    assert find_recurrences(np.zeros(0, np.int64), np.zeros(0, np.bool_)) == []
    assert find_recurrences(np.array([1, 1, 1, 1]), np.zeros(3, np.bool_)) == []
