"""How long a GPU rests before a round, so that its boost clock holds (docs/protocol.md has the figures)."""

from __future__ import annotations

MAX_REST_NS = 20_000_000
MIN_REST_NS = 500_000
BUSY_SHARE = 0.1
"""Share of the time that the device may work: the average power then stays far under any board's limit."""


def rest_ns(round_ns: int) -> int:
    """The pause before each round of a case.

    Args:
        round_ns: how long a round keeps the device busy, measured in the warm-up.

    Returns:
        As much rest as keeps the device busy for at most BUSY_SHARE of the time, within the two bounds.
    """
    wanted = round(round_ns * (1 - BUSY_SHARE) / BUSY_SHARE)
    return max(MIN_REST_NS, min(MAX_REST_NS, wanted))
