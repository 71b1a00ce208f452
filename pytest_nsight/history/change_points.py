"""Change points of a sequence by the E-divisive method (Matteson and James 2014, doi 10.1080/01621459.2013.849605).

It asks of every pair of neighbouring stretches how far their distributions differ, by the energy distance between
them; takes the largest; tests it by shuffling the observations within the stretches found so far; and goes on until
the test finds no more. It assumes no distribution, and finds several changes of any size.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FEWEST = 2
"""Observations of a stretch: one has no spread that another could be compared with."""

SIGNIFICANCE = 0.05
PERMUTATIONS = 199
"""Significance and number of permutations are those that the authors use."""

FEWEST_OBSERVATIONS = 8
"""Of 7 observations even a perfect step has a p-value over 5 %: it is 2 of the 35 orders that they can have."""

_SEED = 20140101

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """Where a sequence changes.

    Attributes:
        index: of the first observation after the change.
        p_value: of "nothing changes there", by permutation, and at least what counting the orders gives.
    """

    index: int
    p_value: float


@dataclass(frozen=True, slots=True)
class _Division:
    """The best division of a stretch.

    Attributes:
        statistic: of the division.
        index: of the first observation after it.
        least_p: share of the orders of the stretch in which the same two parts come first, in either order. They
            divide it as well, so the p-value is no smaller, however few of them the permutations hit.
    """

    statistic: float
    index: int
    least_p: float


def find_change_points(values: Floats, *, significance: float = SIGNIFICANCE) -> tuple[ChangePoint, ...]:
    """The change points of a sequence, in order; none of fewer than 8 observations.

    The same values give the same points: the permutations are seeded.

    Args:
        values: the observations, in order of time; finite.
        significance: largest p-value of a change point.
    """
    if values.size < FEWEST_OBSERVATIONS:
        return ()
    rng = np.random.default_rng(_SEED)
    borders, found = [0, values.size], list[ChangePoint]()
    while True:
        best = _find_best(values, borders)
        if best is None:
            break
        p_value = max(_test(values, borders, best.statistic, rng), best.least_p)
        if p_value > significance:
            break
        found.append(ChangePoint(best.index, p_value))
        borders = sorted((*borders, best.index))
    return tuple(sorted(found, key=lambda one: one.index))


def _find_best(values: Floats, borders: list[int]) -> _Division | None:
    """The best division over all stretches, None where none is long enough."""
    divisions = [
        _Division(found.statistic, start + found.index, found.least_p)
        for start, end in itertools.pairwise(borders)
        if (found := _divide(values[start:end])) is not None
    ]
    return max(divisions, key=lambda one: one.statistic, default=None)


def _test(values: Floats, borders: list[int], statistic: float, rng: np.random.Generator) -> float:
    """The share of permutations within the stretches whose best division is as good."""
    as_good = 0
    for _ in range(PERMUTATIONS):
        shuffled = np.concatenate(
            [rng.permutation(values[start:end]) for start, end in itertools.pairwise(borders)]
        )
        best = _find_best(shuffled, borders)
        as_good += best is not None and best.statistic >= statistic
    return (as_good + 1) / (PERMUTATIONS + 1)


def _divide(values: Floats) -> _Division | None:
    """The division of a stretch with the largest scaled energy distance between its left and right part.

    The right part may end before the stretch does, so that a second change does not hide the first one.
    """
    size = values.size
    if size < 2 * FEWEST:
        return None
    # sums[i, j] is the sum of the distances among the first i and the first j observations.
    sums = np.zeros((size + 1, size + 1))
    sums[1:, 1:] = np.abs(values[:, None] - values[None, :]).cumsum(axis=0).cumsum(axis=1)
    middles, ends = np.meshgrid(
        np.arange(FEWEST, size - FEWEST + 1), np.arange(2 * FEWEST, size + 1), indexing="ij"
    )
    is_valid = ends - middles >= FEWEST
    left, right = middles.astype(np.float64), np.where(is_valid, ends - middles, FEWEST).astype(np.float64)
    between = sums[middles, ends] - sums[middles, middles]
    # Both triangles of a square hold each pair once.
    within_left = sums[middles, middles] / 2
    within_right = (sums[ends, ends] - 2 * sums[middles, ends] + sums[middles, middles]) / 2
    distance = (
        2 * between / (left * right)
        - within_left / (left * (left - 1) / 2)
        - within_right / (right * (right - 1) / 2)
    )
    statistic = np.where(is_valid, left * right / (left + right) * distance, -np.inf)
    best = np.unravel_index(int(statistic.argmax()), statistic.shape)
    middle, end = int(middles[best]), int(ends[best])
    least_p = 2 / (math.comb(size, middle) * math.comb(size - middle, end - middle))
    return _Division(float(statistic[best]), middle, least_p)
