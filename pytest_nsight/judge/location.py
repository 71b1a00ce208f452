"""From the rounds of one run to one number: the unit of every test is the run, never the round.

Rounds of one process share its context, allocations and clock, so they are no independent sample of what the
next process will measure; a test on them finds differences between runs of identical code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_nsight.model import RunSummary

TRIM = 0.25
BATCHES = 6
FLOOR_NS = 50.0
_LARGEST_TICK_NS = 1000
_FEWEST_STEPS = 8

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Location:
    """Where one run lies.

    Attributes:
        run: id of the run.
        session: id of its session.
        board: the board it ran on.
        log_ns: midmean of the natural logarithms of its rounds in ns.
        within_error: standard error of `log_ns` as far as the rounds alone show it; 0.0 below 4 rounds.
        durations_ns: the rounds.
    """

    run: str
    session: str
    board: str
    log_ns: float
    within_error: float
    durations_ns: Floats


def midmean(values: Floats) -> Floats:
    """Return the mean of the middle half along the last axis, as `scipy.stats.trim_mean(values, 0.25, -1)`.

    Half of the rounds may be outliers on one side or both before it breaks, and it does not jump between the
    two modes of a clock that hops, as the median does.
    """
    cut = int(TRIM * values.shape[-1])
    middle = np.sort(values, axis=-1)[..., cut : values.shape[-1] - cut]
    return np.asarray(middle.mean(axis=-1), dtype=np.float64)


def within_run_error(log_durations: Floats) -> float:
    """Return the standard error of a run's location by batch means.

    There are 6 successive batches, fewer below 12 rounds. Batches keep the autocorrelation of neighbouring
    rounds inside. The first rounds that do not fill a batch are left out.
    """
    batches = min(BATCHES, log_durations.size // 2)
    if batches < 2:
        return 0.0
    size = log_durations.size // batches
    means = midmean(log_durations[log_durations.size - batches * size :].reshape(batches, size))
    return float(means.std(ddof=1) / math.sqrt(batches))


def locate(run: RunSummary, metric: str) -> Location | str:
    """Return the location of a run, or the reason why it has none as a phrase."""
    rounds = run.rounds.get(metric, ())
    if len(rounds) == 0:
        return f"run {run.run} has no rounds of {metric} time"
    try:
        durations = np.asarray([float(value) for value in rounds], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return f"run {run.run} has rounds of {metric} time that are no numbers"
    good = int(np.count_nonzero(np.isfinite(durations) & (durations > 0)))
    if good < durations.size:
        bad = f"{durations.size - good} of {durations.size} rounds"
        return f"{metric} time is not above 0 ns in {bad} of run {run.run}"
    logs = np.log(durations)
    return Location(
        run.run, run.session, run.board, float(midmean(logs)), within_run_error(logs), durations_ns=durations
    )


def locate_all(runs: Iterable[RunSummary], metric: str) -> tuple[tuple[Location, ...], str]:
    """Return the locations of those runs that have one, and the first reason of those that have none."""
    found = [locate(run, metric) for run in runs]
    reasons = [item for item in found if isinstance(item, str)]
    return tuple(item for item in found if isinstance(item, Location)), reasons[0] if reasons else ""


def resolution_ns(locations: Iterable[Location]) -> float:
    """Return the smallest change in ns that may count: two ticks of the timer, at least 50 ns.

    The tick is the greatest common divisor of the differences between the distinct rounds. It is believed
    when at least 8 such differences exist, and up to 1 us (the unit of torch.profiler), so that a handful of
    equal rounds is not taken for a coarse timer.
    """
    pooled = [location.durations_ns for location in locations]
    if not pooled:
        return FLOOR_NS
    largest = float(max(durations.max() for durations in pooled))
    if largest >= 2**53:
        return FLOOR_NS
    steps = np.diff(np.unique(np.concatenate(pooled).astype(np.int64)))
    if steps.size < _FEWEST_STEPS:
        return FLOOR_NS
    tick = int(np.gcd.reduce(steps))
    return max(FLOOR_NS, 2.0 * tick) if tick <= _LARGEST_TICK_NS else FLOOR_NS
