"""The ratio of two cases that one process measured in turns, and its error: from blocks of pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.judge.location import locate, midmean
from pytest_nsight.model.values import InterleavedPairs

BLOCKS = 8
"""Of successive pairs: long enough to hold the autocorrelation of neighbours, and enough of them for a t test."""

NEAR_CLAIM = math.log(1.02)
"""A claim this near to the interval of one process needs others: their ratios differ by about half a percent."""

RUNS_NEAR_CLAIM = 5


@dataclass(frozen=True, slots=True)
class PairEstimate:
    """What one race says.

    Attributes:
        mean: of log(partner) - log(own) over the pairs.
        standard_error: of the mean.
        degrees_of_freedom: of the standard error.
        pairs: their number.
    """

    mean: float
    standard_error: float
    degrees_of_freedom: float
    pairs: int


def estimate_pairs(
    races: Sequence[InterleavedPairs], runs: Sequence[str], metric: str
) -> tuple[PairEstimate, ...] | None:
    """Return the estimate of each run's race, None unless every run has one that can be used.

    Args:
        races: of one claiming case, at most one a run.
        runs: ids of all runs that measured it.
        metric: the duration that is compared.
    """
    by_run = {race.run: race for race in races}
    estimates = [estimate_pair(by_run[run], metric) for run in runs if run in by_run]
    found = tuple(one for one in estimates if one is not None)
    return found if found and len(found) == len(runs) else None


def estimate_pair(race: InterleavedPairs, metric: str) -> PairEstimate | None:
    """Return what a race says, None if it has too few pairs or a duration that is no time.

    The pairs are cut into 8 successive blocks, fewer below 16 pairs. A block is represented by the mean of the
    middle half of its differences; the first pairs that do not fill a block are left out.
    """
    own, partner = locate(race.own, metric), locate(race.partner, metric)
    if isinstance(own, str) or isinstance(partner, str) or own.durations_ns.size != partner.durations_ns.size:
        return None
    differences = np.log(partner.durations_ns) - np.log(own.durations_ns)
    blocks = min(BLOCKS, differences.size // 2)
    if blocks < 2:
        return None
    size = differences.size // blocks
    means = midmean(differences[differences.size - blocks * size :].reshape(blocks, size))
    error = float(means.std(ddof=1)) / math.sqrt(blocks)
    return PairEstimate(float(means.mean()), error, float(blocks - 1), differences.size)
