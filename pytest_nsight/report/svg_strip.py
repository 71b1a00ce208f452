"""Rounds run by run as SVG text for the HTML report: complete as it stands, needs no script."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_nsight.model.units import duration, shorten
from pytest_nsight.report.escapes import html_text
from pytest_nsight.report.svg_elements import (
    CLOSE_SVG,
    LETTER,
    LONGEST_NS,
    WIDTH,
    dots,
    line,
    open_svg,
    rect,
    text,
    ticks,
)

_DOTS_PER_PIXEL = 2
_SHORTEST_GROUP = 8


@dataclass(frozen=True, slots=True)
class StripRun:
    """One run of a case.

    Attributes:
        title: what is known of the run.
        group: name of its session, and its commit: runs of one group stand together.
        is_new: whether it belongs to this session, and not to the baseline.
        is_compared: whether its level counts.
        rounds_ns: its rounds in order; empty where they are not at hand.
        level_ns: where the run lies.
    """

    title: str
    group: str
    is_new: bool
    is_compared: bool
    rounds_ns: Sequence[float]
    level_ns: float


def strip(runs: Sequence[StripRun], baseline_ns: float | None, band: float) -> str:
    """Rounds run by run: a dot for each round in its order, a line for each run's level; "" without runs.

    Args:
        runs: in order of time.
        baseline_ns: the compared level of the baseline, None where there is none.
        band: around that, as a ratio.
    """
    levels = [run.level_ns for run in runs]
    shown = [ns for run in runs for ns in _inner(run.rounds_ns)] + levels
    known = shown if baseline_ns is None else [*shown, baseline_ns]
    if not shown or not all(0 < ns < LONGEST_NS for ns in known):
        return ""
    left, right, top, bottom = 74, WIDTH - 10, 10, 210
    low, high = min(shown), max(shown)
    band = min(band, 1.0)
    if baseline_ns is not None:
        low, high = min(low, baseline_ns / (1 + band)), max(high, baseline_ns * (1 + band))
    low, high = low - 0.05 * (high - low) - 0.002 * low, high + 0.05 * (high - low) + 0.002 * high
    slot = (right - left) / len(runs)

    def y(ns: float) -> float:
        return bottom - (bottom - top) * (min(max(ns, low), high) - low) / (high - low)

    parts = [open_svg(bottom + 40, "strip", "Rounds of each run, baseline and new")]
    for tick in ticks(low, high):
        parts += [
            line(left, y(tick), right, y(tick), "grid"),
            text(left - 8, y(tick) + 4, duration(tick), "tick end"),
        ]
    if baseline_ns is not None:
        upper, lower = y(baseline_ns * (1 + band)), y(baseline_ns / (1 + band))
        parts += [
            rect(left, upper, right - left, lower - upper, "band"),
            line(left, y(baseline_ns), right, y(baseline_ns), "zero"),
        ]
    free_from: float = left
    for number, run in enumerate(runs):
        start = left + slot * number
        if number == 0 or run.group != runs[number - 1].group:
            parts.append(line(start, top, start, bottom + 8, "grid"))
            together = sum(1 for other in runs if other.group == run.group)
            room = int(slot * together / LETTER)
            before = right - LETTER * len(run.group)
            if run.group == runs[-1].group and free_from < before < start:
                # One new run beside many stored ones leaves no room below itself.
                parts.append(text(right, bottom + 22, run.group, "tick end"))
            elif room >= _SHORTEST_GROUP:
                name = shorten(run.group, room, "…")
                parts.append(text(start + 3, bottom + 22, name, "tick"))
                free_from = start + 3 + LETTER * (len(name) + 1)
        parts.append(_run(run, start, slot, y))
    return "".join([*parts, CLOSE_SVG])


def _run(run: StripRun, start: float, slot: float, y: Callable[[float], float]) -> str:
    name = ("new" if run.is_new else "old") + ("" if run.is_compared else " aside")
    inside = 0.8 * slot / max(1, len(run.rounds_ns))
    # More dots than that hide one another.
    step = max(1, math.ceil(len(run.rounds_ns) / (_DOTS_PER_PIXEL * slot)))
    places = [
        (start + 0.1 * slot + inside * (place + 0.5), y(run.rounds_ns[place]))
        for place in range(0, len(run.rounds_ns), step)
    ]
    level = line(start + 0.1 * slot, y(run.level_ns), start + 0.9 * slot, y(run.level_ns), "level")
    path = dots(places, "dots") if places else ""
    return f'<g class="{name}"><title>{html_text(run.title)}</title>{path}{level}</g>'


def _inner(rounds: Sequence[float]) -> Sequence[float]:
    """The rounds without the outermost twentieth on either end, which would flatten all the others."""
    ordered = sorted(rounds)
    cut = len(ordered) // 20
    return ordered[cut : len(ordered) - cut]
