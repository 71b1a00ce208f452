"""The location of one run, one number for all its rounds: the unit of every test is the run, never the round.

Rounds of one process share its context, allocations and clock. They are no independent sample of what the next
process will measure: a test on them finds differences between runs of identical code.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from pytest_nsight.judge.drift_and_modes import (
    LARGEST_CPU_DRIFT,
    LARGEST_DRIFT,
    Modes,
    find_drift,
    find_modes,
    is_drift_of_share,
)
from pytest_nsight.judge.environment_checks import leave_out_disturbed
from pytest_nsight.judge.round_statistics import Floats, exp, low_percentile, midmean, within_run_error
from pytest_nsight.model.values import RunSummary

FLOOR_NS = 50.0
_LARGEST_TICK_NS = 1000
_FEWEST_STEPS = 8


@dataclass(frozen=True, slots=True)
class Location:
    """Where one run lies.

    Attributes:
        run: id of the run.
        session: id of its session.
        board: the board it ran on.
        log_ns: midmean of the natural logarithms of its rounds in ns; on a CPU their 10th percentile.
        within_error: standard error of `log_ns` as far as the rounds alone show it; 0.0 below 4 rounds.
        durations_ns: the rounds.
        board_group: the group of boards that time alike, "" when unknown.
        drift: log change from the first to the last round; 0.0 for none, and for one of the share of slow rounds.
        modes: the two modes of its rounds, None if they have one.
        cases: number of cases that its process measured, 0 when unknown.
    """

    run: str
    session: str
    board: str
    log_ns: float
    within_error: float
    durations_ns: Floats
    board_group: str = ""
    drift: float = 0.0
    modes: Modes | None = None
    cases: int = 0

    @property
    def place(self) -> tuple[str, str]:
        """Board and session."""
        return self.board, self.session

    @property
    def has_one_level(self) -> bool:
        """Whether the run may be compared: it neither drifts nor has a clock that changes."""
        return self.drift == 0.0 and not (self.modes is not None and self.modes.is_clock)


class Unusable(enum.Enum):
    """Why rounds have no location."""

    MISSING = "has no rounds of {metric} time"
    NO_NUMBERS = "has rounds of {metric} time that are no numbers"
    NOT_POSITIVE = "has {bad} of {rounds} rounds whose {metric} time is not above 0 ns"


@dataclass(frozen=True, slots=True)
class Unlocated:
    """A run without a location.

    Attributes:
        cause: why.
        bad: number of rounds that are not above 0 ns.
        rounds: number of its rounds.
        run: id of the run.
        metric: the duration in question.
    """

    cause: Unusable
    bad: int = 0
    rounds: int = 0
    run: str = ""
    metric: str = ""

    @property
    def text(self) -> str:
        """The cause as a clause."""
        return f"run {self.run} " + self.cause.value.format(metric=self.metric, bad=self.bad, rounds=self.rounds)


@dataclass(frozen=True, slots=True)
class LocatedRuns:
    """The locations of several runs.

    Attributes:
        locations: of the runs that have one.
        unlocated: the other runs.
    """

    locations: tuple[Location, ...]
    unlocated: tuple[Unlocated, ...] = ()

    @property
    def why_not(self) -> str:
        """Why the first run without a location has none, "" if all have one."""
        return self.unlocated[0].text if self.unlocated else ""


@dataclass(frozen=True, slots=True)
class _LocatedRounds:
    """What the rounds of a run alone say; the attributes are those of `Location`."""

    log_ns: float
    within_error: float
    durations_ns: Floats
    drift: float
    modes: Modes | None


def locate(
    run: RunSummary, metric: str, board_groups: Mapping[str, str] = MappingProxyType({})
) -> Location | Unlocated:
    """The location of a run, or why it has none.

    Args:
        run: the run.
        metric: the duration in question.
        board_groups: board -> its group.
    """
    rounds = tuple(run.rounds.get(metric, ()))
    if not rounds:
        return Unlocated(Unusable.MISSING, run=run.run, metric=metric)
    found = _locate_rounds(rounds, run.clocks.round_mhz, on_gpu=run.ran_on_gpu)
    if isinstance(found, Unlocated):
        return replace(found, run=run.run, metric=metric)
    return Location(
        run=run.run,
        session=run.session,
        board=run.board,
        log_ns=found.log_ns,
        within_error=found.within_error,
        durations_ns=found.durations_ns,
        board_group=board_groups.get(run.board, ""),
        drift=found.drift,
        modes=found.modes,
        cases=run.cases,
    )


@lru_cache(maxsize=2**14)
def _locate_rounds(
    rounds: tuple[object, ...], round_mhz: tuple[int, ...], *, on_gpu: bool
) -> _LocatedRounds | Unlocated:
    """The location of the rounds; cached, since every look and every replay asks again."""
    try:
        durations = np.asarray([float(value) for value in rounds], dtype=np.float64)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return Unlocated(Unusable.NO_NUMBERS, rounds=len(rounds))
    good = int(np.count_nonzero(np.isfinite(durations) & (durations > 0)))
    if good < durations.size:
        return Unlocated(Unusable.NOT_POSITIVE, int(durations.size) - good, len(rounds))
    logs = np.log(durations)
    modes = find_modes(logs, round_mhz)
    statistic = midmean if on_gpu else low_percentile
    error = max(within_run_error(logs, statistic), modes.error if modes else 0.0)
    drift = find_drift(logs, LARGEST_DRIFT if on_gpu else LARGEST_CPU_DRIFT)
    if drift and is_drift_of_share(logs, drift):
        drift = 0.0
    durations.setflags(write=False)
    return _LocatedRounds(float(statistic(logs)), error, durations, drift, modes)


def locate_all(
    runs: Iterable[RunSummary], metric: str, board_groups: Mapping[str, str] = MappingProxyType({})
) -> LocatedRuns:
    """The locations of those runs that have one, and the others."""
    found = [locate(run, metric, board_groups) for run in runs]
    return LocatedRuns(
        tuple(item for item in found if isinstance(item, Location)),
        tuple(item for item in found if isinstance(item, Unlocated)),
    )


def typical_ns(runs: Sequence[RunSummary], metric: str) -> float:
    """The single time in ns that reports show for several runs: the geometric mean of their locations.

    As in a comparison, runs that other programs disturbed, that drift, or whose clock changed count only where all
    do.

    Args:
        runs: at least one, each with rounds of this metric.
        metric: the duration in question.
    """
    runs = leave_out_disturbed(runs, fewest=1)
    found = locate_all(runs, metric)
    if found.unlocated:
        # Rounds of 0 ns, such as copies that do not occur, have no logarithm.
        return float(statistics.median_high([statistics.median_high(run.rounds[metric]) for run in runs]))
    level = [location for location in found.locations if location.has_one_level] or found.locations
    return exp(statistics.fmean(location.log_ns for location in level))


def has_one_level(run: RunSummary, metric: str) -> bool:
    """Whether a run may be compared: it has a location, does not drift, and its clock does not change."""
    found = locate(run, metric)
    return isinstance(found, Location) and found.has_one_level


def explain_no_level(runs: Sequence[RunSummary], metric: str) -> str:
    """Why none of these runs may be compared, "" if some may or their rounds have no logarithm."""
    found = locate_all(runs, metric).locations
    if not found or any(location.has_one_level for location in found):
        return ""
    if all(location.drift for location in found):
        return "the time drifts within every run, as without enough warm-up"
    return "the clock changed within every run"


def resolution_ns(locations: Iterable[Location]) -> float:
    """The smallest change in ns that may count: two ticks of the timer, at least 50 ns.

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
