"""The fast attribution against one that compares every launch with every range."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.trace import measures
from pytest_nsight.trace.measures import measure
from tests.trace.trace_builder import TraceBuilder

pytestmark = pytest.mark.slow


class Range(NamedTuple):
    start: int
    end: int
    domain: str
    process: int
    thread: int
    is_pushed: bool


class Launch(NamedTuple):
    call: int
    start: int
    length: int
    process: int
    thread: int
    is_copy: bool
    has_call: bool


NO_THREAD = -1
times = st.integers(-30, 60)
processes = st.integers(1, 2)
threads = st.integers(1, 3)
ranges = st.lists(
    st.builds(Range, times, times, st.sampled_from(["pytest_nsight", "app"]), processes, threads, st.booleans()),
    max_size=8,
)
launches = st.lists(
    st.builds(Launch, times, times, st.integers(0, 30), processes, threads, st.booleans(), st.booleans()),
    max_size=15,
)


def list_rounds(process: int, every: list[Range]) -> list[Range]:
    """The process's ranges of the own domain, in order, without those that begin in the one before."""
    rounds: list[Range] = []
    own = [one for one in every if one.domain == "pytest_nsight" and one.process == process]
    for one in sorted(own, key=lambda one: (one.start, -one.end)):
        if not rounds or one.start >= rounds[-1].end:
            rounds.append(one)
    return rounds


def place(launch: Launch, launched: list[Launch], every: list[Range]) -> Launch:
    """The launch as if it had been called when the round that it ran in began, if its call is missing."""
    calls = [at for at, one in enumerate(launched) if one.has_call and one.process == launch.process]
    at = next(at for at, one in enumerate(launched) if one is launch)
    if launch.has_call or (calls and at < min(calls)):
        # Correlations count upwards, so the second was launched before the recording.
        return launch
    begun = [one for one in list_rounds(launch.process, every) if one.start <= launch.start]
    if not begun or launch.start + launch.length > begun[-1].end:
        return launch
    return launch._replace(call=begun[-1].start, thread=NO_THREAD, has_call=True)


def holds(span: Range, launch: Launch) -> bool:
    return launch.process == span.process and span.start <= launch.call < span.end


def is_wide(span: Range) -> bool:
    return span.domain == "pytest_nsight" or not span.is_pushed


def owns(span: Range, launch: Launch, every: list[Range]) -> bool:
    if not launch.has_call or not holds(span, launch):
        return False
    if is_wide(span) or span.thread == launch.thread:
        return True
    stretch = stretch_around(launch, every)
    return stretch is None or (span.start < stretch[0] and stretch[1] < span.end)


def stretch_around(launch: Launch, every: list[Range]) -> tuple[int, int] | None:
    """First start and last end of the ranges of the launch's own thread that enclose it, or those that do."""
    own = [o for o in every if not is_wide(o) and (o.process, o.thread) == (launch.process, launch.thread)]
    around = [o for o in own if holds(o, launch)]
    if not around:
        return None
    low, high = min(o.start for o in around), max(o.end for o in around)
    return low, high


def is_nested(spans: list[Range]) -> bool:
    """Whether no two pushed ranges of a thread cross, which no program can do."""
    narrow = [span for span in spans if not is_wide(span) and span.start < span.end]
    return not any(
        a.start < b.start < a.end < b.end
        for a in narrow
        for b in narrow
        if (a.process, a.thread) == (b.process, b.thread)
    )


def union(intervals: list[tuple[int, int]]) -> int:
    return len({instant for start, end in intervals for instant in range(start, end)})


def expected(span: Range, launched: list[Launch], every: list[Range]) -> list[int]:
    mine = [launch for launch in launched if owns(span, launch, every)]
    kernels = [(k.start, k.start + k.length) for k in mine if not k.is_copy]
    copies = [k.length for k in mine if k.is_copy]
    busy = union(kernels)
    length = max(e for _, e in kernels) - min(s for s, _ in kernels) if kernels else 0
    total = sum(end - start for start, end in kernels)
    called = 2 * sum(k.thread != NO_THREAD for k in mine if not k.is_copy)
    return [len(kernels), total, busy, length, length - busy, len(copies), sum(copies), called]


@pytest.mark.parametrize("pairs_at_once", [measures.PAIRS_AT_ONCE, 3])
@settings(max_examples=60, deadline=None)
@given(spans=ranges, launched=launches)
@example(
    spans=[
        Range(0, 0, "pytest_nsight", 1, 1, is_pushed=False),
        Range(0, 2, "app", 1, 1, is_pushed=False),
        Range(1, 0, "pytest_nsight", 1, 1, is_pushed=False),
    ],
    launched=[Launch(0, 1, 0, 1, 1, is_copy=False, has_call=False)],
)
def test_equals_a_comparison_of_all_pairs(pairs_at_once, spans, launched):
    assume(is_nested(spans))
    builder = TraceBuilder()
    for number, span in enumerate(spans):
        builder.range(
            "r", span.start, span.end, domain=span.domain, payload=number,
            process=span.process, thread=span.thread, is_pushed=span.is_pushed,
        )  # fmt: skip
    for launch in launched:
        api = launch.call if launch.has_call else None
        if launch.is_copy:
            # A copy is written as a kernel first, for its call; its row is then moved to the other table.
            builder.launch("c", launch.start, launch.start + launch.length, api_at=api,
                           process=launch.process, thread=launch.thread)  # fmt: skip
            row = builder.rows["CUPTI_ACTIVITY_KIND_KERNEL"].pop()
            builder.row("CUPTI_ACTIVITY_KIND_MEMCPY", bytes=1, copyKind=1, **row)
        else:
            builder.launch("k", launch.start, launch.start + launch.length, api_at=api,
                           process=launch.process, thread=launch.thread)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(measures, "PAIRS_AT_ONCE", pairs_at_once)
        result = measure(read(builder.write(Path(folder) / "trace.sqlite")), None)
    columns = ["launches", "kernel_ns", "busy_ns", "span_ns", "gap_ns", "copies", "copy_ns", "launch_ns"]
    found = result.ranges.sort_values("id")[columns].to_numpy().tolist()
    # Who reads the export lets a range that ends before it starts end where it starts.
    spans = [span._replace(end=max(span.start, span.end)) for span in spans]
    placed = [place(launch, launched, spans) for launch in launched]
    assert found == [expected(span, placed, spans) for span in spans]
    covered = sum(any(owns(span, launch, spans) for span in spans) for launch in placed)
    assert sum(one.count for one in result.unattributed) == len(launched) - covered
    by_shape = np.zeros(len(spans), np.int64)
    np.add.at(by_shape, result.kernels["range"], result.kernels["count"])
    assert by_shape.tolist() == (result.ranges["launches"] + result.ranges["copies"]).tolist()
