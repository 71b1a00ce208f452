"""The plot of one case's history as SVG: its time session by session, and the levels between change points."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nsight.model.units import duration, percent
from pytest_nsight.report.escapes import html_text
from pytest_nsight.report.svg_elements import CLOSE_SVG, WIDTH, circle, line, open_svg, text, ticks

_LEFT, _RIGHT, _TOP, _BOTTOM = 74, WIDTH - 14, 26, 216
_DATE_ROOM = 76
# Less than that around the times, and noise fills the plot.
_LEAST_REACH = 0.01
# Over thirty years: no time that was measured.
_LONGEST_NS = 1e18


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """One session on one board.

    Attributes:
        title: what is known of it.
        day: its date.
        time_ns: its time.
        is_stored: whether it is, or was, in a baseline.
        has_reason: whether somebody said why it became one.
    """

    title: str
    day: str
    time_ns: float
    is_stored: bool
    has_reason: bool


@dataclass(frozen=True, slots=True)
class PlotLevel:
    """The points from one change to the next.

    Attributes:
        start: number of its first point.
        level_ns: where they lie.
    """

    start: int
    level_ns: float


def plot_history(points: Sequence[PlotPoint], levels: Sequence[PlotLevel]) -> str:
    """A dot for each session, in order; a line for each level, with its change on top; "" without usable times.

    Args:
        points: oldest first; their distances on the plot are equal, whatever time lies between them.
        levels: in order; the first one starts at the first point. Empty where no change was looked for.
    """
    times = [point.time_ns for point in points]
    if not times or not all(0 <= ns < _LONGEST_NS for ns in times):
        return ""
    middle, reach = (min(times) + max(times)) / 2, max(times) - min(times)
    half = max(0.6 * reach, _LEAST_REACH * middle, 1.0)
    low, high = max(middle - half, 0.0), middle + half
    slot = (_RIGHT - _LEFT) / len(points)

    def x(place: float) -> float:
        return _LEFT + slot * (place + 0.5)

    def y(ns: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * (ns - low) / (high - low)

    parts = [open_svg(_BOTTOM + 30, "history", "Time of each session, oldest first, and where it changed")]
    for tick in ticks(low, high):
        parts += [
            line(_LEFT, y(tick), _RIGHT, y(tick), "grid"),
            text(_LEFT - 8, y(tick) + 4, duration(tick), "tick end"),
        ]
    every = max(1, -(-_DATE_ROOM // int(max(slot, 1))))
    for place in range(0, len(points), every):
        parts.append(text(x(place), _BOTTOM + 20, points[place].day, "tick middle"))
    ends = [*(level.start for level in levels[1:]), len(points)]
    for level, end in zip(levels, ends, strict=False):
        parts.append(line(x(level.start - 0.4), y(level.level_ns), x(end - 0.6), y(level.level_ns), "level"))
    for before, after in itertools.pairwise(levels):
        border = x(after.start - 0.5)
        size = percent(after.level_ns / before.level_ns - 1) if before.level_ns else ""
        parts += [line(border, _TOP, border, _BOTTOM, "change"), text(border, _TOP - 8, size, "label middle")]
    for place, point in enumerate(points):
        name = ("stored" if point.is_stored else "session") + (" reasoned" if point.has_reason else "")
        parts.append(circle(x(place), y(point.time_ns), 5 if point.has_reason else 3.5, name, point.title))
    return "".join([*parts, CLOSE_SVG])


def plot_key() -> str:
    """What dots and lines mean."""
    texts = {
        "stored": "stored in a baseline",
        "session": "session that was judged",
        "reasoned": "stored with a reason",
        "level": "level between changes",
    }
    spans = "".join(f'<span><i class="{name}"></i>{html_text(meaning)}</span>' for name, meaning in texts.items())
    return f'<p class="soft key">{spans}</p>'
