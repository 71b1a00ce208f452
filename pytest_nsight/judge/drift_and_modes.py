"""Drift and modes of the rounds of one run: a run that drifts, or whose clock changes, has no level to compare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

LARGEST_DRIFT = 0.01
"""Log change from the first to the last round from which on a significant drift counts."""

LARGEST_CPU_DRIFT = 0.20
"""The limit on a shared CPU, whose rounds vary by percents: half of the smallest band there."""

FEWEST_ROUNDS = 12
MODE_GAP = 0.015
MODE_GAP_NS = 100.0
MODE_SHARE = 0.10
_MODE_SEPARATION = 5.0
_LEVEL_SEPARATION = 4.0
_FEWEST_SWITCHES = 3
_MODE_CLOCKS = 0.01
_DRIFT_NORMAL = 2.5758293035489004
_THIRD_SIGMAS = 4.0
_FEWEST_TO_REPEAT = 4
_MOST_IN_PAIRS = 2000
_LARGEST_CORRELATION = 0.95


@dataclass(frozen=True, slots=True)
class Modes:
    """Two levels between which the rounds of a run alternate.

    Attributes:
        gap: of log time between their means.
        share: of the rounds in the slower one.
        switches: how often a round is in another mode than the one before.
        is_clock: whether the SM clock differs between them, too; None where it was not read with each round.
    """

    gap: float
    share: float
    switches: int
    is_clock: bool | None = None

    @property
    def error(self) -> float:
        """Standard error of the share of time in the slow mode, times the gap.

        A stay in one mode counts once, however many rounds it lasts.
        """
        return self.gap * math.sqrt(self.share * (1 - self.share) / (self.switches + 1))


def find_drift(logs: Floats, largest: float = LARGEST_DRIFT) -> float:
    """The log change from the first to the last round, 0.0 unless it is a drift.

    A drift is a line (Theil 1950, Sen 1968) whose 99 % interval of the slope excludes 0 and that makes more than
    `largest` over the run, or midmeans of the first and the last third that differ by more than that and by four
    of their own standard errors. Both errors are widened for autocorrelated rounds, whose slow changes resemble a
    trend. Short kernels, whose rounds scatter by percents, seldom pass by chance.

    Args:
        logs: log durations in the order of the rounds; of over 2000, medians of equally many neighbours are taken,
            because all pairs of them would take gigabytes.
        largest: log change that is still no drift.
    """
    logs = _thin(logs)
    count = logs.size
    if count < FEWEST_ROUNDS:
        return 0.0
    first, second, steps, spread = _pairs(count)
    slopes = (logs[second] - logs[first]) / steps
    slope = float(np.median(slopes))
    if abs(slope) * count > largest:
        spread *= _inflate(logs - slope * np.arange(count))
        against = np.count_nonzero(slopes * slope <= 0)
        if against < (slopes.size - spread) / 2:
            return slope * count
    return _compare_thirds(logs, largest)


def _thin(logs: Floats) -> Floats:
    """The logs, or medians of consecutive blocks of them where they are too many."""
    size = -(-logs.size // _MOST_IN_PAIRS)
    if size <= 1:
        return logs
    blocks = logs[: logs.size - logs.size % size].reshape(-1, size)
    return np.median(blocks, axis=1)


def _compare_thirds(logs: Floats, largest: float) -> float:
    third = logs.size // 3
    ends = np.stack((logs[:third], logs[-third:]))
    cut = third // 4
    middle = np.sort(ends, axis=-1)[:, cut : third - cut].mean(axis=-1)
    change = float(middle[1] - middle[0])
    if abs(change) <= largest:
        return 0.0
    inflation = max(_inflate(ends[0]), _inflate(ends[1]))
    error = math.sqrt(float(ends.var(axis=-1, ddof=1).sum()) / third) * inflation
    return change if abs(change) > _THIRD_SIGMAS * error else 0.0


def _inflate(residuals: Floats) -> float:
    """The factor by which autocorrelation of neighbours widens an error: sqrt((1 + rho) / (1 - rho))."""
    centred = residuals - residuals.mean()
    squares = float(centred @ centred)
    rho = float(centred[1:] @ centred[:-1]) / squares if squares > 0 else 0.0
    rho = min(max(rho, 0.0), _LARGEST_CORRELATION)
    return math.sqrt((1 + rho) / (1 - rho))


@lru_cache(maxsize=64)
def _pairs(count: int) -> tuple[Indices, Indices, Indices, float]:
    """All pairs of rounds, their distances, and how many ranks the 99 % interval of the median slope spans.

    The interval is that of Sen (1968), by Kendall's normal approximation.
    """
    first, second = np.triu_indices(count, 1)
    spread = _DRIFT_NORMAL * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return first, second, second - first, spread


def find_modes(logs: Floats, clocks_mhz: tuple[int, ...] = ()) -> Modes | None:
    """The two modes of a run's rounds, None if there is only one.

    The sorted rounds are parted where the squares within the two parts are least. They are modes if their
    means are more than 1.5 %, 100 ns (three ticks of the GPU's timer) and five of the standard deviations within
    them apart, and neither holds less than a tenth of the rounds.

    Args:
        logs: log durations in the order of the rounds.
        clocks_mhz: SM clock read with each round, empty where it was not.
    """
    parts = _part(logs)
    if parts is None or not parts.are_apart(_MODE_SEPARATION):
        return None
    return Modes(parts.gap, parts.share, parts.switches, _differ_in_clock(parts.is_slow, clocks_mhz))


def is_drift_of_share(logs: Floats, drift: float) -> bool:
    """Whether a drift comes from rounds that alternate between two levels, and the share of the slower one changes.

    Such a run shows the noise as any other run of its kernel does. Without it the runs that stay on one level would
    be left, and the noise would seem smaller than it is.

    The levels are those of `find_modes`, but for 4 standard deviations: a line with any noise on it has at most
    12^0.5. Rounds alternate if they change their level at least a third as often as independent rounds would; a
    warm-up changes it once. And without the levels, less than half of the drift is left.

    Args:
        logs: log durations in the order of the rounds.
        drift: of these, see `find_drift`.
    """
    parts = _part(logs)
    if parts is None or not parts.are_apart(_LEVEL_SEPARATION) or abs(drift) > parts.gap:
        return False
    independent = 2 * parts.share * (1 - parts.share) * logs.size
    if parts.switches < max(_FEWEST_SWITCHES, independent / 3):
        return False
    means = np.where(parts.is_slow, logs[parts.is_slow].mean(), logs[~parts.is_slow].mean())
    return abs(find_drift(logs - means, largest=0.0)) < abs(drift) / 2


@dataclass(frozen=True, slots=True)
class _Parts:
    """The rounds of a run in two parts, with the least squares within them.

    Attributes:
        gap: of log time between their means.
        within: standard deviation of log time within them.
        typical_ns: of all rounds.
        is_slow: shape (rounds,), which are in the slower part.
    """

    gap: float
    within: float
    typical_ns: float
    is_slow: npt.NDArray[np.bool_]

    @property
    def share(self) -> float:
        """Share of the rounds in the slower part."""
        return float(np.count_nonzero(self.is_slow)) / self.is_slow.size

    @property
    def switches(self) -> int:
        """How often a round is in another part than the one before."""
        return int(np.count_nonzero(np.diff(self.is_slow)))

    def are_apart(self, separation: float) -> bool:
        """Whether they are two levels, this many deviations apart at least, and neither holds few rounds."""
        gap_ns = self.typical_ns * math.expm1(min(self.gap, 700.0))
        is_wide = self.gap > max(MODE_GAP, separation * self.within) and gap_ns > MODE_GAP_NS
        return is_wide and MODE_SHARE <= self.share <= 1 - MODE_SHARE


def _part(logs: Floats) -> _Parts | None:
    """The parts, None for few rounds, and for rounds that lie too close together for two levels."""
    count = logs.size
    if count < FEWEST_ROUNDS or float(np.ptp(logs)) <= MODE_GAP:
        return None
    middle = float(logs.mean())
    ordered = np.sort(logs) - middle
    lower, sizes = np.cumsum(ordered)[:-1], np.arange(1, count)
    # All values sum to 0, so the sum of the lower part gives both means and the squares between them.
    between = lower**2 * (count / (sizes * (count - sizes)))
    best = int(between.argmax())
    cut = best + 1
    gap = -float(lower[best]) * count / (cut * (count - cut))
    within = math.sqrt(max(0.0, float(ordered @ ordered) - float(between[best])) / (count - 2))
    return _Parts(gap, within, math.exp(min(middle, 700.0)), logs - middle >= ordered[cut])


def _differ_in_clock(is_slow: npt.NDArray[np.bool_], clocks_mhz: tuple[int, ...]) -> bool | None:
    if len(clocks_mhz) != is_slow.size:
        return None
    clocks = np.asarray(clocks_mhz, dtype=np.float64)
    fast, slow = float(np.median(clocks[~is_slow])), float(np.median(clocks[is_slow]))
    return bool(fast > 0 and abs(slow / fast - 1) > _MODE_CLOCKS)


def is_repeated(runs: Sequence[Floats]) -> bool:
    """Whether several runs have exactly equal rounds, which no nanosecond clock gives.

    True for constants and for copies of one run; with less than 4 rounds in all it may be chance.
    """
    return (
        len(runs) > 1
        and sum(run.size for run in runs) >= _FEWEST_TO_REPEAT
        and all(np.array_equal(run, runs[0]) for run in runs[1:])
    )
