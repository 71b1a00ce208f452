"""How many rounds a case gets in a run, where nobody said. Pure.

More rounds only lower the error within the run, and that matters as long as it is not small against what runs
differ by anyway (Kalibera and Jones 2013, doi 10.1145/2555670.2464160: repeat at the level that varies).

Only the host's durations are known while the rounds run. They are the device's plus what launching and waiting add,
so their absolute error is hardly below the device's. CUDA events are no better: the first event passes an idle
stream at once, so that they, too, count the host's way to the launch. What is added is measured on a launch that
does next to nothing, the floor; the error is taken relative to what lies above it. Where little does, a kernel of
a few microseconds, the ratio says nothing, and the case gets all rounds: they are cheap there.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

FEWEST = 30
MOST = 100
STEP = 5
"""Rounds between two looks, so that a lucky short stretch seldom ends a case."""

SMALL_ERROR = 0.0015
"""A relative error that is small whatever the runs differ by."""

LONG_NS = 1_000_000_000
"""A case that has taken this long gets no rounds beyond FEWEST."""

_BATCHES = 6
_TRUSTED_SHARE = 0.25
"""Of the floor: a round that is longer than it by less than this tells nothing of the device."""


def relative_error(walls_ns: Sequence[int], floor_ns: int) -> float | None:
    """Standard error of the location of the rounds, as a ratio of the time above the floor.

    By batch means of 6 successive batches, which keep the autocorrelation of neighbouring rounds inside; a batch is
    represented by the mean of its middle half, as the run will be.

    Args:
        walls_ns: host durations of the rounds, in order.
        floor_ns: host duration of a round that does next to nothing.

    Returns:
        The ratio; None where the rounds are too few (below 12) or too short to tell.
    """
    if len(walls_ns) < 2 * _BATCHES:
        return None
    size = len(walls_ns) // _BATCHES
    kept = walls_ns[len(walls_ns) - _BATCHES * size :]
    means = [_midmean(kept[start : start + size]) for start in range(0, len(kept), size)]
    above_ns = statistics.fmean(means) - floor_ns
    if above_ns <= _TRUSTED_SHARE * floor_ns or above_ns <= 0:
        return None
    return statistics.stdev(means) / math.sqrt(_BATCHES) / above_ns


def is_enough(walls_ns: Sequence[int], floor_ns: int, run_sd: float, elapsed_ns: int) -> bool:
    """Whether a case may end after these rounds.

    Args:
        walls_ns: host durations of the rounds so far, in order.
        floor_ns: host duration of a round that does next to nothing.
        run_sd: standard deviation of log time that runs on such a device are expected to have.
        elapsed_ns: time since the first round began, rests included.
    """
    count = len(walls_ns)
    if count < FEWEST:
        return False
    if count >= MOST or elapsed_ns > LONG_NS:
        return True
    if (count - FEWEST) % STEP:
        return False
    error = relative_error(walls_ns, floor_ns)
    return error is not None and error < max(run_sd / 3, SMALL_ERROR)


def _midmean(values: Sequence[int]) -> float:
    cut = len(values) // 4
    return statistics.fmean(sorted(values)[cut : len(values) - cut])
