"""What a change between two traces has to exceed to count, and the verdict on what does not. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pytest_nsight.compare.changes import Change
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.verdicts import VerdictKind

_MICROSECOND_NS = 1000


@dataclass(frozen=True, slots=True)
class Floors:
    """What a change has to exceed.

    Attributes:
        band: as a ratio.
        tick_ns: of each launch.
        part_ns: of the whole, by the device time of the baseline and by that of the optimized trace.
    """

    band: float
    tick_ns: int
    part_ns: tuple[float, float]

    def exchanged(self) -> Floors:
        """Those of the comparison in the other direction."""
        return replace(self, part_ns=self.part_ns[::-1])


def is_above(row: Change, band: float, floor_ns: float) -> bool:
    """Whether a time grew by more than the band and the floor; from 0, by more than the floor."""
    if row.before is None or row.after is None or row.after - row.before <= floor_ns:
        return False
    lowest = row.low if row.low is not None else row.ratio
    return lowest is None or lowest > 1 + band


def settle(row: Change, band: float, floor_ns: float) -> VerdictKind:
    """The verdict on what is neither slower nor faster.

    It is UNCHANGED if the change does not exceed the floor, or the interval, or the ratio without one, lies within
    the band. The rest is INCONCLUSIVE: the interval reaches beyond the band, or the range is a small part.
    """
    if abs((row.after or 0) - (row.before or 0)) <= floor_ns:
        return VerdictKind.UNCHANGED
    low, high = (row.low, row.high) if row.low and row.high else (row.ratio, row.ratio)
    is_within = low is not None and high is not None and low * (1 + band) >= 1 and high <= 1 + band
    return VerdictKind.UNCHANGED if is_within else VerdictKind.INCONCLUSIVE


def find_tick(*traces: Trace) -> int:
    """The unit of the times in ns: 1000 where all launches take whole microseconds, as of older Kineto; else 0.

    A kernel of 4.98 us becomes one of 5.02 us, and its rounded times differ by 25 % in every launch.
    """
    whole = all(
        bool(np.all((one.launches.end_ns - one.launches.start_ns) % _MICROSECOND_NS == 0)) for one in traces
    )
    return _MICROSECOND_NS if whole else 0
