"""How long a GPU rests before a round, so that its boost clock holds (docs/protocol.md has the figures). Pure.

A board slows down when its power, averaged over some tens of milliseconds, reaches the limit. The first rest
keeps the average below that for the hungriest kernel there is; what the board says after each round decides
whether that was enough.
"""

from __future__ import annotations

from pytest_nsight.manifest import Reading

MAX_REST_NS = 20_000_000

IDLE_SHARE = 0.2
"""Of the power limit: what a board with a CUDA context draws at rest (an H200: 120 of 700 W)."""

PEAK_SHARE = 1.6
"""Of the power limit: what the hungriest kernel would draw at the highest clock.

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
"""Shortest rest after a first one has turned out too short."""

RESTED_PER_BUSY = (PEAK_SHARE - IDLE_SHARE) / (MEAN_SHARE - IDLE_SHARE) - 1
"""2.5: the rest, for each ns of work, that brings the average of PEAK_SHARE and IDLE_SHARE down to MEAN_SHARE."""


def first_rest_ns(busy_ns: int) -> int:
    """The rest before the first rounds.

    Args:
        busy_ns: how long a round and the emptying of the cache before it keep the device busy.
    """
    return min(MAX_REST_NS, round(busy_ns * RESTED_PER_BUSY))


def longer_rest_ns(rest_ns: int) -> int:
    """The rest to take from now on where one of `rest_ns` was too short."""
    return min(MAX_REST_NS, max(LENGTHENED_NS, 2 * rest_ns))


def is_slowed(reading: Reading, highest_mhz: int | None) -> bool:
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


def higher_mhz(reading: Reading, highest_mhz: int | None) -> int | None:
    """The highest clock seen, this reading's included."""
    return highest_mhz if reading.sm_mhz is None else max(reading.sm_mhz, highest_mhz or 0)


def is_near_limit(reading: Reading, limit_w: float | None) -> bool:
    """Whether the board draws so much that it will slow down soon."""
    return reading.power_w is not None and limit_w is not None and reading.power_w > NEAR_SHARE * limit_w


class Pacer:
    """The rest of one case: as long as the readings so far ask for.

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
        self.highest_mhz = highest_mhz
        self.rest_ns = first_rest_ns(busy_ns) if fixed_ns is None else fixed_ns

    def observe(self, reading: Reading) -> bool:
        """Takes in what the board said after a round; returns whether that round was slowed."""
        self.highest_mhz = higher_mhz(reading, self.highest_mhz)
        slowed = is_slowed(reading, self.highest_mhz)
        if not self._is_fixed and (slowed or is_near_limit(reading, self._limit_w)):
            self.rest_ns = longer_rest_ns(self.rest_ns)
        return slowed
