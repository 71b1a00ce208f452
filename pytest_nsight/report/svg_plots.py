"""Plots as SVG text for the HTML report: forest plot, bars, roofline.

Each is complete as it stands, needs no script, and shows its numbers where the pointer rests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nsight.model.units import amount, interval, percent
from pytest_nsight.report.escapes import html_text
from pytest_nsight.report.svg_elements import (
    CLOSE_SVG,
    LETTER,
    LONGEST_NS,
    WIDTH,
    arrow,
    change_ticks,
    circle,
    decades,
    line,
    open_svg,
    polyline,
    rect,
    text,
    tick_label,
)
from pytest_nsight.report.table import shorten_all

_ROW = 22
_LEFT = 340
# Ratios beyond a hundredfold, or a hundredth, are drawn as arrows.
_FARTHEST = 100.0
_MARGIN = 1.1
_LABEL_END = _LEFT - 12
_LONGEST_LABEL = int(_LABEL_END / LETTER)


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One case of the forest plot; changes are ratios less one.

    Attributes:
        label: of the case.
        link: id of the element that the row refers to.
        kind: name of the verdict, lower case: a class of the style sheet.
        change: relative change.
        low: lower end of its interval.
        high: upper end.
        band: relative change that counts for this case.
    """

    label: str
    link: str
    kind: str
    change: float
    low: float
    high: float
    band: float


def forest(rows: Sequence[ForestRow]) -> str:
    """Changes with their intervals against the band, one row each, in the order given; "" without rows."""
    if not rows:
        return ""
    left, right, top = _LEFT, 840, 28
    height = top + _ROW * len(rows) + 8
    short = shorten_all([row.label for row in rows], _LONGEST_LABEL, "…")
    # The logarithm of the ratio; its asinh is linear within the band, so +130 % leaves changes of 2 % apart.
    unit = max(min(math.log(2), *(math.log1p(row.band) for row in rows)), 0.002)
    ends = [abs(_log_ratio(end)) for row in rows for end in (row.low, row.high, row.change, row.band)]
    most = max(4 * unit, *ends)
    # An end that only touches the edge would look cut off.
    reach = math.asinh(_MARGIN * most / unit)

    def x(change: float) -> float:
        return (left + right) / 2 + (right - left) / 2 * math.asinh(_log_ratio(change) / unit) / reach

    parts = [open_svg(height, "forest", "Change of each case with its 90 % interval and band")]
    for tick in change_ticks(x, math.exp(most)):
        parts.append(line(x(tick), top - 4, x(tick), height - 8, "zero" if tick == 0 else "grid"))
        parts.append(text(x(tick), top - 10, tick_label(tick), "tick middle"))
    for number, row in enumerate(rows):
        y = top + _ROW * number + _ROW / 2
        change = percent(row.change, error=(row.high - row.low) / 2)
        title = f"{row.label}: {change}, 90 % interval {interval(row.low, row.high)}"
        parts += [
            f'<a href="#{html_text(row.link)}"><g class="{html_text(row.kind)}"><title>{html_text(title)}</title>',
            rect(0, y - _ROW / 2, WIDTH, _ROW, "hit"),
            rect(2 * x(0.0) - x(row.band), y - _ROW / 2 + 2, 2 * (x(row.band) - x(0.0)), _ROW - 4, "band"),
            text(_LABEL_END, y + 4, short[row.label], "label end"),
            line(x(row.low), y, x(row.high), y, "interval"),
            *(
                arrow(x(end), y, math.copysign(1, end))
                for end in (row.low, row.high)
                if not 1 / _FARTHEST <= 1 + end <= _FARTHEST
            ),
            circle(x(row.change), y, 4, "mark"),
            text(right + 14, y + 4, change, "label"),
            "</g></a>",
        ]
    return "".join([*parts, CLOSE_SVG])


def _log_ratio(change: float) -> float:
    """The logarithm of the ratio, as far as the axis goes."""
    return math.log(min(max(1 + change, 1 / _FARTHEST), _FARTHEST))


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of a bar chart.

    Attributes:
        label: of the row.
        before_ns: time in the baseline, None where it is not known.
        now_ns: time now.
        note: what stands behind the bars.
    """

    label: str
    before_ns: float | None
    now_ns: float
    note: str


def bars(rows: Sequence[Bar], title: str) -> str:
    """Times as bars, that of the baseline above that of now; "" without rows.

    Args:
        rows: from top to bottom.
        title: what a screen reader says.
    """
    longest = max((value for row in rows for value in (row.now_ns, row.before_ns or 0.0)), default=0.0)
    if not 0 < longest < LONGEST_NS:
        return ""
    left, right, step = _LEFT, 760, 30
    short = shorten_all([row.label for row in rows], _LONGEST_LABEL, "…")
    parts = [open_svg(step * len(rows) + 4, "bars", title)]
    for number, row in enumerate(rows):
        y = step * number + 4
        width = (right - left) / longest
        parts += [
            f"<g><title>{html_text(row.label)}</title>",
            text(_LABEL_END, y + 16, short[row.label], "label end"),
        ]
        if row.before_ns is not None:
            parts.append(rect(left, y + 2, row.before_ns * width, 8, "bar old"))
        parts += [
            rect(left, y + 11, row.now_ns * width, 10, "bar new"),
            text(right + 14, y + 16, row.note, "label"),
            "</g>",
        ]
    return "".join([*parts, CLOSE_SVG])


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """One case of the roofline.

    Attributes:
        label: of the case.
        link: id of the element that it refers to.
        intensity: operations for each byte.
        flops_per_s: operations a second.
    """

    label: str
    link: str
    intensity: float
    flops_per_s: float


def roofline(points: Sequence[RooflinePoint], bytes_per_s: float, flops_per_s: float) -> str:
    """Operations a second over operations for each byte, both on a logarithmic scale, below the board's limits."""
    ridge = flops_per_s / bytes_per_s
    left, right, top, bottom = 90, WIDTH - 20, 14, 340
    intensities = [point.intensity for point in points] + [ridge]
    low, high = min(intensities) / 4, max(intensities) * 4
    least = min([point.flops_per_s for point in points] + [low * bytes_per_s, flops_per_s / 10]) / 2
    most = 2 * flops_per_s

    def x(intensity: float) -> float:
        return left + (right - left) * math.log(intensity / low) / math.log(high / low)

    def y(rate: float) -> float:
        return bottom - (bottom - top) * math.log(max(rate, least) / least) / math.log(most / least)

    parts = [open_svg(bottom + 46, "roofline", "Roofline of the cases with declared work")]
    for tick in decades(low, high):
        parts += [
            line(x(tick), top, x(tick), bottom, "grid"),
            text(x(tick), bottom + 16, f"{tick:g}", "tick middle"),
        ]
    for tick in decades(least, most):
        parts += [line(left, y(tick), right, y(tick), "grid")]
        parts += [text(left - 8, y(tick) + 4, amount(tick, "FLOP/s"), "tick end")]
    corners = ((x(low), y(low * bytes_per_s)), (x(ridge), y(flops_per_s)), (right, y(flops_per_s)))
    parts.append(polyline(corners, "roof"))
    parts.append(text((left + right) / 2, bottom + 36, "FLOP for each byte", "tick middle"))
    for point in points:
        title = f"{point.label}: {amount(point.flops_per_s, 'FLOP/s')} at {point.intensity:.3g} FLOP for each byte"
        mark = circle(x(point.intensity), y(point.flops_per_s), 5, "point", title)
        parts.append(f'<a href="#{html_text(point.link)}">{mark}</a>')
    return "".join([*parts, CLOSE_SVG])
