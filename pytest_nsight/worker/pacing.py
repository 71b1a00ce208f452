"""How long a GPU rests before a round, and how many rounds a case gets where the user gives no number. Pure.

Rest: a board slows down when its power, averaged over some tens of milliseconds, reaches the limit. The first rest
keeps the average below the limit even for a kernel that draws the most power; NVML's readings after each round
decide whether that was enough (docs/protocol.md has the figures).

Rounds: more of them lower only the error within the run. That matters as long as this error is not small against
the differences between runs (Kalibera and Jones 2013, doi 10.1145/2555670.2464160: repeat at the level that
varies). Only the host's durations are known while the rounds run. They are the device's plus the time for
launching and waiting, so their absolute error is hardly below the device's. CUDA events are no better: the first
event passes an idle stream at once, so that they, too, include the host's time until the launch. That time is
measured on a launch that does next to nothing, the overhead, and the error is taken relative to the time above
it. For a kernel of a few microseconds little lies above it, so the ratio says nothing and the case gets all
rounds: they are cheap.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nsight.protocol.conditions import NvmlSample

MAX_REST_NS = 20_000_000

IDLE_SHARE = 0.2
"""Of the power limit: what a board with a CUDA context draws at rest (an H200: 120 of 700 W)."""

PEAK_SHARE = 1.6
"""Of the power limit: what the most demanding kernel would draw at the highest clock.

A matmul on an H200 held at the limit runs 1.18 times longer than at the full clock (docs/protocol.md, "Why rest"),
and power goes with about the cube of the clock.
"""

MEAN_SHARE = 0.6
"""Of the power limit: what the average may reach, rests included."""

NEAR_SHARE = 0.8
"""Of the power limit: a draw above it is lowered before the board does so itself."""

CLOCK_TOLERANCE = 0.01
"""A clock this much below the highest seen has dropped; a step of the clock is 0.8 %, and temperature takes one."""

LENGTHENED_NS = 1_000_000
"""Shortest rest after the first one was too short."""

RECOVERED_ROUNDS = 5
"""After so many in a row, neither slowed nor near the power limit, the board has recovered from earlier work."""

RESTED_PER_BUSY = (PEAK_SHARE - IDLE_SHARE) / (MEAN_SHARE - IDLE_SHARE) - 1
"""2.5: the rest, for each ns of work, that brings the average of PEAK_SHARE and IDLE_SHARE down to MEAN_SHARE."""


def first_rest_ns(busy_ns: int) -> int:
    """The rest before the first rounds.

    Args:
        busy_ns: how long a round and the emptying of the cache before it keep the device busy.
    """
    return min(MAX_REST_NS, round(busy_ns * RESTED_PER_BUSY))


def longer_rest_ns(rest_ns: int) -> int:
    """The next rest, after a rest of `rest_ns` was too short."""
    return min(MAX_REST_NS, max(LENGTHENED_NS, 2 * rest_ns))


def is_slowed(reading: NvmlSample, highest_mhz: int | None) -> bool:
    """Whether the board ran slower than it can.

    Args:
        reading: right after a round.
        highest_mhz: the highest SM clock seen on this board; its nominal maximum would not do, since an
            administrator may have locked the clock below that.
    """
    if reading.reasons:
        return True
    if reading.sm_mhz is None or highest_mhz is None:
        return False
    return reading.sm_mhz < highest_mhz * (1 - CLOCK_TOLERANCE)


def higher_mhz(reading: NvmlSample, highest_mhz: int | None) -> int | None:
    """The highest clock seen, this reading's included."""
    return highest_mhz if reading.sm_mhz is None else max(reading.sm_mhz, highest_mhz or 0)


def is_near_limit(reading: NvmlSample, limit_w: float | None) -> bool:
    """Whether the board draws so much that it will slow down soon."""
    return reading.power_w is not None and limit_w is not None and reading.power_w > NEAR_SHARE * limit_w


class Pacer:
    """The rest of one case: as long as the readings so far ask for.

    A board that earlier work has driven to its limit is slowed for some tenths of a second more. So where it is
    slowed from the first round on, and then recovers, the rest is the first one again. Where it slows down after a
    quiet round, this case is the cause, and the rest never shrinks again.

    Attributes:
        rest_ns: the rest before the next round.
        highest_mhz: the highest SM clock seen, None if none could be read.
    """

    def __init__(
        self, busy_ns: int, *, fixed_ns: int | None, limit_w: float | None, highest_mhz: int | None
    ) -> None:
        """Chooses the first rest.

        Args:
            busy_ns: see `first_rest_ns`.
            fixed_ns: a rest that never changes, because the user asked for it or the device needs none.
            limit_w: the board's power limit, None if unknown.
            highest_mhz: the highest SM clock seen before.
        """
        self._is_fixed = fixed_ns is not None
        self._limit_w = limit_w
        self._quiet_rounds = 0
        self._is_cause = False
        self.highest_mhz = highest_mhz
        self.rest_ns = self._first_ns = first_rest_ns(busy_ns) if fixed_ns is None else fixed_ns

    def observe(self, reading: NvmlSample) -> bool:
        """Whether the board slowed the round down after which it was read; adapts the rest."""
        self.highest_mhz = higher_mhz(reading, self.highest_mhz)
        slowed = is_slowed(reading, self.highest_mhz)
        if self._is_fixed:
            return slowed
        if slowed or is_near_limit(reading, self._limit_w):
            self._is_cause = self._is_cause or self._quiet_rounds > 0
            self.rest_ns = longer_rest_ns(self.rest_ns)
            return slowed
        self._quiet_rounds += 1
        if self._quiet_rounds == RECOVERED_ROUNDS and not self._is_cause:
            self.rest_ns = self._first_ns
        return slowed


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """When a case may end where the user gives no number of rounds.

    Attributes:
        fewest: rounds that every case gets.
        long_ns: a case that has taken this long gets no rounds beyond these.
    """

    fewest: int
    long_ns: int


USUAL = StoppingRule(fewest=30, long_ns=1_000_000_000)
AUDIT = StoppingRule(fewest=15, long_ns=500_000_000)
"""In the first pair, of a case that both trees are proven to launch alike. The error of 15 rounds is small beside
that of one run. What a look asks for again is measured as usual."""

MOST = 100
STEP = 5
"""Rounds between two checks, so that a short quiet stretch seldom ends a case."""

SMALL_ERROR = 0.0015
"""A relative error that is small enough on every device."""

LEAST_ROUNDS = 10
PATIENCE_NS = 4_000_000_000
"""A case that has taken this long stops after LEAST_ROUNDS rounds, unless a number was asked for."""

_BATCHES = 6
_TRUSTED_SHARE = 0.25
"""Of the overhead: a round that is longer than it by less than this says nothing about the device."""


def relative_error(walls_ns: Sequence[int], overhead_ns: int) -> float | None:
    """Standard error of the location of the rounds, as a ratio of the time above the overhead.

    By batch means of 6 successive batches, which keep the autocorrelation of neighbouring rounds inside; a batch is
    represented by the mean of its middle half, as the run will be.

    Args:
        walls_ns: host durations of the rounds, in order.
        overhead_ns: host duration of a round that does next to nothing.

    Returns:
        The ratio; None where the rounds are too few (below 12) or too short.
    """
    if len(walls_ns) < 2 * _BATCHES:
        return None
    size = len(walls_ns) // _BATCHES
    kept = walls_ns[len(walls_ns) - _BATCHES * size :]
    means = [_midmean(kept[start : start + size]) for start in range(0, len(kept), size)]
    above_ns = statistics.fmean(means) - overhead_ns
    if above_ns <= _TRUSTED_SHARE * overhead_ns or above_ns <= 0:
        return None
    return statistics.stdev(means) / math.sqrt(_BATCHES) / above_ns


def is_enough(
    walls_ns: Sequence[int], overhead_ns: int, run_sd: float, elapsed_ns: int, rule: StoppingRule = USUAL
) -> bool:
    """Whether a case may end after these rounds.

    Args:
        walls_ns: host durations of the rounds so far, in order.
        overhead_ns: host duration of a round that does next to nothing.
        run_sd: standard deviation of log time that runs on such a device are expected to have.
        elapsed_ns: time since the first round began, rests included.
        rule: when the case may end.
    """
    count = len(walls_ns)
    if count < rule.fewest:
        return False
    if count >= MOST or elapsed_ns > rule.long_ns:
        return True
    if (count - rule.fewest) % STEP:
        return False
    error = relative_error(walls_ns, overhead_ns)
    return error is not None and error < max(run_sd / 3, SMALL_ERROR)


def is_over(
    walls_ns: Sequence[int], wanted: int | StoppingRule, overhead_ns: int, run_sd: float, elapsed_ns: int
) -> bool:
    """Whether a case ends after these rounds: a number that was asked for, else as in `is_enough`."""
    if not isinstance(wanted, StoppingRule):
        return len(walls_ns) >= wanted
    if elapsed_ns > PATIENCE_NS:
        return len(walls_ns) >= LEAST_ROUNDS
    return is_enough(walls_ns, overhead_ns, run_sd, elapsed_ns, wanted)


def _midmean(values: Sequence[int]) -> float:
    cut = len(values) // 4
    return statistics.fmean(sorted(values)[cut : len(values) - cut])
