"""What happened in one round, ready to be drawn: named spans in lanes, and the gaps between them. Inert values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimelineSpan:
    """One bar of a timeline.

    Attributes:
        name: of the launch, the range or the call; "" where the bar stands for several.
        start_ns: from the start of the round.
        end_ns: from the start of the round.
        count: how many launches, ranges or calls it stands for.
    """

    name: str
    start_ns: int
    end_ns: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """One row of a timeline.

    Attributes:
        title: such as "stream 7".
        kind: what its spans are: "range", "call", "kernel" or "copy".
        spans: in order of start.
    """

    title: str
    kind: str
    spans: tuple[TimelineSpan, ...]


@dataclass(frozen=True, slots=True)
class RoundTimeline:
    """One round of a case.

    Attributes:
        run: id of the run.
        round: number of the round in its run, from 1.
        wall_ns: from the start of the round to its end, or that of its last launch.
        kernel_ns: sum of its kernels.
        lanes: ranges first, then calls, then streams.
        idle_ns: how long no device worked between the first launch and the last.
        gaps: start and end of the longest stretches of that, in order.
    """

    run: str
    round: int
    wall_ns: int
    kernel_ns: int
    lanes: tuple[TimelineLane, ...]
    idle_ns: int = 0
    gaps: tuple[tuple[int, int], ...] = ()


def thin(spans: Sequence[TimelineSpan], most: int) -> tuple[TimelineSpan, ...]:
    """At most so many spans: the longest stay, the others become one span for each slice of their time.

    Args:
        spans: of one lane.
        most: how many, at least 2.

    Returns:
        In order of start. No launch is lost: the counts add up to those given.
    """
    if len(spans) <= most:
        return tuple(sorted(spans, key=lambda one: (one.start_ns, -one.end_ns)))
    ordered = sorted(spans, key=lambda one: one.start_ns - one.end_ns)
    kept, rest = ordered[: most // 2], ordered[most // 2 :]
    first_ns = min(one.start_ns for one in rest)
    slices = most - len(kept)
    length_ns = (max(one.start_ns for one in rest) - first_ns) // slices + 1
    joined: dict[int, TimelineSpan] = {}
    for one in rest:
        place = (one.start_ns - first_ns) // length_ns
        known = joined.get(place, one)
        count = one.count + (known.count if place in joined else 0)
        name = one.name if known.name == one.name else ""
        start_ns, end_ns = min(one.start_ns, known.start_ns), max(one.end_ns, known.end_ns)
        joined[place] = TimelineSpan(name, start_ns, end_ns, count)
    return tuple(sorted([*kept, *joined.values()], key=lambda one: (one.start_ns, -one.end_ns)))
