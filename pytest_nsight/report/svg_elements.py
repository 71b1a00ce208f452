"""The elements that the plots of the HTML report are drawn with: SVG text, places in pixels, text escaped.

Colours and fonts are classes of the page's style sheet, so that a plot follows light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from pytest_nsight.report.escapes import html_text

WIDTH = 960
"""Width of every plot; the page scales them."""

LETTER = 7.5
"""Width of a letter of a label, in pixels, in the widest fonts of browsers."""

LONGEST_NS = 1e18
"""Over thirty years: no time that was measured."""

# The same of a tick's text of 11 px.
_TICK_LETTER = 7.0
_TICK_GAP = 8

CLOSE_SVG = "</svg></div>"
"""The last tags of a plot."""


def ticks(low: float, high: float) -> list[float]:
    """Round numbers between the ends, four to nine of them."""
    span = high - low
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 8)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def change_ticks(x: Callable[[float], float], most: float) -> list[float]:
    """Round changes on either side of none, none so near to another that their texts touch.

    Args:
        x: place of a change on the axis, in pixels.
        most: largest ratio, or inverse of one, that the axis shows.
    """
    decimals = [digit * 10.0**power for power in range(-3, 3) for digit in (1, 2, 5)]
    slower = [change for change in decimals if change <= 1.02 * most - 1]
    # No time falls by more than all of itself.
    faster = [-change for change in (*(one for one in decimals if one < 1), 0.8, 0.9, 0.95, 0.98, 0.99)]
    kept = _apart(slower, x)
    return [*reversed(_apart([one for one in faster if 1 / (1 + one) <= 1.02 * most], x)[1:]), *kept]


def _apart(changes: Iterable[float], x: Callable[[float], float]) -> list[float]:
    """No change, and those of these changes that stand apart, going outwards."""
    kept = [0.0]
    for change in changes:
        letters = (len(tick_label(change)) + len(tick_label(kept[-1]))) / 2
        if abs(x(change) - x(kept[-1])) >= _TICK_LETTER * letters + _TICK_GAP:
            kept.append(change)
    return kept


def tick_label(change: float) -> str:
    """A round change without digits that say nothing: "+20 %"."""
    return f"{100 * change:+g} %" if change else "0 %"


def decades(low: float, high: float) -> Iterable[float]:
    """Powers of ten between the ends."""
    return (10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1))


def open_svg(height: float, name: str, title: str) -> str:
    """The first tags of a plot: its class, and the title that a screen reader says. CLOSE_SVG ends it."""
    box = f"0 0 {WIDTH} {px(height)}"
    return f'<div class="scroll"><svg class="{name}" viewBox="{box}" role="img" aria-label="{html_text(title)}">'


def line(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    """A straight line of a class."""
    return polyline(((x1, y1), (x2, y2)), name)


def polyline(points: Iterable[tuple[float, float]], name: str) -> str:
    """Lines from point to point."""
    return f'<path d="M{"L".join(f"{px(x)} {px(y)}" for x, y in points)}" class="{name}"/>'


def dots(points: Iterable[tuple[float, float]], name: str) -> str:
    """A dot for each point, all in one short path: there may be a hundred thousand of them."""
    steps, at = [], (0.0, 0.0)
    for point in points:
        rounded = (round(point[0], 1), round(point[1], 1))
        steps.append(f"m{px(rounded[0] - at[0])} {px(rounded[1] - at[1])}h0")
        at = rounded
    return f'<path d="{"".join(steps).replace(" -", "-")}" class="{name}"/>'


def circle(x: float, y: float, radius: float, name: str, title: str = "") -> str:
    """A disc of a class, with the text that shows where the pointer rests on it."""
    inside = f"<title>{html_text(title)}</title>" if title else ""
    return f'<circle cx="{px(x)}" cy="{px(y)}" r="{px(radius)}" class="{name}">{inside}</circle>'


def rect(x: float, y: float, width: float, height: float, name: str) -> str:
    """A rectangle of a class; a negative width counts as none."""
    size = f'width="{px(max(width, 0.0))}" height="{px(height)}"'
    return f'<rect x="{px(x)}" y="{px(y)}" {size} class="{name}"/>'


def arrow(x: float, y: float, direction: float) -> str:
    """The tip of an arrow: to the right for a direction of 1, to the left for -1."""
    return f'<path d="M{px(x)} {px(y)}l{px(-7 * direction)} -4v8z" class="mark"/>'


def text(x: float, y: float, shown: str, name: str) -> str:
    """Text of classes, its baseline at (x, y)."""
    return f'<text x="{px(x)}" y="{px(y)}" class="{name}">{html_text(shown)}</text>'


def px(value: float) -> str:
    """A px with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")
