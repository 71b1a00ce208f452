"""One round as SVG for the HTML report: ranges, CUDA calls and streams over time, and the gaps between launches."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_nsight.model.round_timeline import RoundTimeline, TimelineLane, TimelineSpan
from pytest_nsight.model.units import duration, shorten
from pytest_nsight.report.escapes import html_text
from pytest_nsight.report.svg_elements import CLOSE_SVG, WIDTH, line, open_svg, px, rect, text, ticks

_LEFT, _RIGHT, _TOP, _ROW = 140, WIDTH - 10, 26, 22
_LETTER = 7.0
_SHORTEST_NAME = 4
_MOST_NAMED = 6
"""Gaps with their length written into them."""
# Over thirty years: no time that was measured.
_LONGEST_NS = 1e18

_KEY = {"range": "range", "call": "CUDA call", "kernel": "{noun}", "copy": "copy or set", "gap": "gap"}
"""Class of the style sheet -> what its colour means."""


def timeline_key(round_: RoundTimeline, noun: str) -> str:
    """What the colours of the round's plot mean, of those that it has.

    Args:
        round_: the round that is drawn.
        noun: what it launches: "kernel" or "operator".
    """
    there = {lane.kind for lane in round_.lanes} | ({"gap"} if round_.gaps else set())
    colours = "".join(
        f'<span><i class="{kind}"></i>{meaning.format(noun=noun)}</span>'
        for kind, meaning in _KEY.items()
        if kind in there
    )
    several = any(span.count > 1 for lane in round_.lanes for span in lane.spans)
    pale = "<span>pale, 9 x: nine short ones and what lies between them</span>" if several else ""
    return f'<p class="soft key">{colours}{pale}</p>'


def timeline(round_: RoundTimeline, noun: str = "kernel") -> str:
    """The round as a plot, "" where it has no length; names and lengths show where the pointer rests.

    Args:
        round_: what is drawn.
        noun: what it launches: "kernel", or "operator", which no stream runs.
    """
    if not round_.lanes or not 0 < round_.wall_ns < _LONGEST_NS:
        return ""
    lanes = _join_streams(round_.lanes)
    bottom = _TOP + _ROW * (len(lanes) + 1)
    unit = (_RIGHT - _LEFT) / round_.wall_ns
    parts = [open_svg(bottom + 6, "timeline", f"Timeline of one round: ranges, calls, {noun}s, copies and gaps")]
    for tick in ticks(0, round_.wall_ns):
        x = _LEFT + tick * unit
        parts.append(line(x, _TOP - 6, x, bottom, "grid"))
        place = "tick" if tick == 0 else "tick end" if x > _RIGHT - 30 else "tick middle"
        parts.append(text(x, _TOP - 10, duration(tick) if tick else "0", place))
    for number, (title, group) in enumerate(lanes):
        y = _TOP + _ROW * number
        shown = "operators" if noun == "operator" and title.startswith("stream") else title
        parts.append(text(_LEFT - 10, y + 15, shorten(shown, 18, "…"), "tick end"))
        parts += [_draw(span, lane.kind, y, unit) for lane in group for span in lane.spans]
    parts.append(_draw_gaps(round_, _TOP + _ROW * len(lanes), unit))
    return "".join([*parts, CLOSE_SVG])


def describe_round(round_: RoundTimeline, noun: str) -> str:
    """The round in one sentence: which one it is, and what its time went to, kernels or operators."""
    gaps = f"{duration(round_.idle_ns)} idle between launches" if round_.idle_ns else "no gap between launches"
    return (
        f"Round {round_.round} of run {round_.run}, typical of it by {noun} time: {duration(round_.wall_ns)} in "
        f"all, {duration(round_.kernel_ns) if round_.kernel_ns else 'nothing'} in {noun}s, {gaps}."
    )


def _join_streams(lanes: Sequence[TimelineLane]) -> list[tuple[str, list[TimelineLane]]]:
    """Kernels and copies of one stream stand in one row."""
    rows: list[tuple[str, list[TimelineLane]]] = []
    for lane in lanes:
        if lane.title and rows and rows[-1][0] == lane.title:
            rows[-1][1].append(lane)
        else:
            rows.append((lane.title, [lane]))
    return rows


def _draw(span: TimelineSpan, kind: str, y: float, unit: float) -> str:
    """A bar, at least half a pixel wide, with as much of its name as it has room for."""
    x, width = _LEFT + span.start_ns * unit, max((span.end_ns - span.start_ns) * unit, 0.5)
    what = span.name or f"{span.count} of them"
    if span.name and span.count > 1:
        what = f"{span.count} x {span.name}"
    length = duration(span.end_ns - span.start_ns) if span.end_ns > span.start_ns else "0 ns"
    title = f"{what}: {length} at {duration(span.start_ns) if span.start_ns else '0 ns'}"
    place = f'x="{px(x)}" y="{px(y + 2)}" width="{px(width)}" height="{_ROW - 4}"'
    name = kind if span.count == 1 else f"{kind} several"
    bar = f'<rect {place} class="{name}"><title>{html_text(title)}</title></rect>'
    room = int((width - 6) / _LETTER)
    if span.count > 1:
        what = f"{span.count} x"
    return bar + (text(x + 3, y + 15, shorten(what, room, "…"), "inside") if room >= _SHORTEST_NAME else "")


def _draw_gaps(round_: RoundTimeline, y: float, unit: float) -> str:
    """The row of gaps; the longest with their lengths."""
    parts = [text(_LEFT - 10, y + 15, "gaps", "tick end")] if round_.gaps else []
    longest = set(sorted(round_.gaps, key=lambda gap: gap[0] - gap[1])[:_MOST_NAMED])
    for gap in round_.gaps:
        x, width = _LEFT + gap[0] * unit, max((gap[1] - gap[0]) * unit, 0.5)
        parts.append(f"<g><title>{html_text(f'gap: {duration(gap[1] - gap[0])}')}</title>")
        parts.append(rect(x, y + 5, width, _ROW - 10, "gap"))
        name = duration(gap[1] - gap[0])
        if gap in longest and width > _LETTER * len(name):
            parts.append(text(x + width / 2, y + 15, name, "tick middle"))
        parts.append("</g>")
    return "".join(parts)
