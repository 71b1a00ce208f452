"""The ratio of two cases whose rounds one process interleaved, and its error: from blocks of pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.judge.location import Unlocated, locate
from pytest_nsight.judge.round_statistics import batch_means, midmean
from pytest_nsight.model.values import InterleavedPairs

BLOCKS = 8
"""Number of blocks of pairs: long enough to hold the autocorrelation of neighbours, and enough for a t test."""

NEAR_CLAIM = math.log(1.02)
"""A claim this near to the interval of one process needs other processes: their ratios differ by half a percent."""

RUNS_NEAR_CLAIM = 5


@dataclass(frozen=True, slots=True)
class PairEstimate:
    """The ratio by the interleaved pairs of one run.

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
    pairs: Sequence[InterleavedPairs], runs: Sequence[str], metric: str
) -> tuple[PairEstimate, ...] | None:
    """The estimate of each run, None unless every run has one.

    Args:
        pairs: of one claiming case, at most one set a run.
        runs: ids of all runs that measured it.
        metric: the duration that is compared.
    """
    by_run = {one.run: one for one in pairs}
    estimates = [estimate_pair(by_run[run], metric) for run in runs if run in by_run]
    found = tuple(one for one in estimates if one is not None)
    return found if found and len(found) == len(runs) else None


def estimate_pair(pairs: InterleavedPairs, metric: str) -> PairEstimate | None:
    """The estimate of one run, None if it has too few pairs or a duration that is no time.

    The pairs are cut into 8 successive blocks, fewer below 16 pairs. A block is represented by the mean of the
    middle half of its differences; the first pairs that do not fill a block are left out.
    """
    own, partner = locate(pairs.own, metric), locate(pairs.partner, metric)
    if (
        isinstance(own, Unlocated)
        or isinstance(partner, Unlocated)
        or own.durations_ns.size != partner.durations_ns.size
    ):
        return None
    differences = np.log(partner.durations_ns) - np.log(own.durations_ns)
    blocks = min(BLOCKS, differences.size // 2)
    if blocks < 2:
        return None
    means = batch_means(differences, blocks, midmean)
    error = float(means.std(ddof=1)) / math.sqrt(blocks)
    return PairEstimate(float(means.mean()), error, float(blocks - 1), differences.size)
