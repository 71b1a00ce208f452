"""The gate's thresholds: the error probability, the smallest change that counts, the largest that is equal."""

from __future__ import annotations

import math
from collections.abc import Iterable

FALSE_DISCOVERY_RATE = 0.005
"""The chance, over all subjects of a session without changes, that any fails; and that any improves."""

MARGIN_FACTOR = 1.5
"""UNCHANGED means: equal within this many bands.

It must be above 1: a change as large as the band itself would otherwise stay between REGRESSION and UNCHANGED
however often it was measured.
"""

CPU_BAND = 0.5
"""Smallest band between sessions on a CPU, as a ratio.

The same code in two processes differs there by 13 to 30 % (standard deviation), whatever the rounds are reduced to:
clock, caches and neighbours change between them.
"""

BOARDS_DIFFER = 0.1
"""Two boards of one model may differ by less than this, as a ratio, in the time of the same launches.

The spread of boards (noise.py) is that of most kernels. One of 93 us was 2.5 % faster on an H100 of another part
number, at a spread of 0.6 %, and one of 5 us 4.2 % slower (docs/decisions/0033). Only runs of the same board can
separate such a shift from a change of the code.
"""


def material_change(band: float, resolution_ns: float, baseline_ns: float, *, on_cpu: bool = False) -> float:
    """The smallest material difference of log times: the band, or what can be resolved if that is larger.

    Args:
        band: as a ratio; what is no number of at least 0 makes nothing material.
        resolution_ns: smallest change that may count.
        baseline_ns: the time that is compared with.
        on_cpu: whether sessions on a CPU are compared.
    """
    if not band >= 0:
        return math.inf
    floor = math.log1p(CPU_BAND) if on_cpu else 0.0
    return max(floor, math.log1p(band), math.log1p(resolution_ns / baseline_ns))


def equality_margin(material: float) -> float:
    """The difference of log times within which UNCHANGED must be shown."""
    return math.log1p(MARGIN_FACTOR * math.expm1(min(material, 700.0)))


def boards_may_explain(difference: float, compared: Iterable[str], new: Iterable[str]) -> bool:
    """Whether boards alone may explain a difference of the same launches, as none has runs of both kinds.

    Args:
        difference: of log time.
        compared: the board of each run that is compared with.
        new: the board of each new run.
    """
    return abs(math.expm1(difference)) < BOARDS_DIFFER and set(compared).isdisjoint(new)
