"""Statistics over the rounds of one run: where they lie, and how surely. Pure arithmetic over arrays."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pytest_nsight.model.values import LOW_SHARE

TRIM = 0.25
BATCHES = 6
_LARGEST_LOG = 700.0

Floats = npt.NDArray[np.float64]


def exp(log_value: float) -> float:
    """The exponential, of at most 700 so that it does not overflow."""
    return math.exp(min(log_value, _LARGEST_LOG))


def midmean(values: Floats) -> Floats:
    """The mean of the middle half along the last axis, as `scipy.stats.trim_mean(values, 0.25, -1)`.

    Half of the rounds may be outliers on one side or both before it breaks, and it does not jump between the
    two modes of a clock that hops, as the median does.
    """
    cut = int(TRIM * values.shape[-1])
    middle = np.sort(values, axis=-1)[..., cut : values.shape[-1] - cut]
    return np.asarray(middle.mean(axis=-1), dtype=np.float64)


def low_percentile(values: Floats) -> Floats:
    """The 10th percentile along the last axis; on a CPU, the middle half shows the load of other programs."""
    return np.asarray(np.quantile(values, LOW_SHARE, axis=-1), dtype=np.float64)


def batch_means(values: Floats, batches: int, statistic: Callable[[Floats], Floats]) -> Floats:
    """The location of each successive batch of equal size; the first values that do not fill one are left out."""
    size = values.size // batches
    return statistic(values[values.size - batches * size :].reshape(batches, size))


def within_run_error(log_durations: Floats, statistic: Callable[[Floats], Floats] = midmean) -> float:
    """The standard error of a run's location by batch means.

    There are 6 batches, fewer below 12 rounds. Batches keep the autocorrelation of neighbouring rounds inside.

    Args:
        log_durations: logarithms of the rounds.
        statistic: the location of a batch, along the last axis.
    """
    batches = min(BATCHES, log_durations.size // 2)
    if batches < 2:
        return 0.0
    means = batch_means(log_durations, batches, statistic)
    return float(means.std(ddof=1) / math.sqrt(batches))
