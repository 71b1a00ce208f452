"""Where in the program the devices are idle: on traces of a few lines, and counted again on a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.analysis.idle_causes import HOST_GAP_NS, IdleCause
from pytest_nsight.analysis.limit_classes import BottleneckClass
from pytest_nsight.analysis.picture import Picture, analyse
from pytest_nsight.analysis.range_tree import OUTSIDE
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.collectors.open_recording import load_trace
from tests.trace.trace_builder import TraceBuilder

RECORDING = Path(__file__).parents[1] / "data" / "recordings" / "h200_llama_block_graph_node.sqlite.xz"
LONG = 10 * HOST_GAP_NS


def picture_of(builder: TraceBuilder, folder: Path, name: str = "") -> Picture:
    return analyse(read(builder.write(folder / "trace.sqlite")), name=name)


def steps_that_load() -> TraceBuilder:
    """Two steps: each loads a batch for a long time, then launches one kernel; another kernel before all steps."""
    trace = TraceBuilder().launch("k", 10, 100, api_at=0)
    for at in (10 * LONG, 13 * LONG):
        trace.range("step", at, at + 2 * LONG, domain="").range("load", at + 100, at + LONG, domain="")
        trace.launch("k", at + LONG + 1_000, at + 2 * LONG, api_at=at + LONG + 500)
    return trace


def test_each_place_has_its_idle_time_and_its_cause(tmp_path: Path) -> None:
    places = {one.label: one for one in picture_of(steps_that_load(), tmp_path).idle}

    assert {label: one.total_ns for label, one in places.items()} == {
        OUTSIDE: 10 * LONG - 100 + LONG,
        "step": 2 * (100 + 1_000),
        "load": 2 * (LONG - 100),
    }
    assert {label: one.largest_ns for label, one in places.items()} == {
        OUTSIDE: 10 * LONG - 100,
        "step": 1_100,
        "load": LONG - 100,
    }
    assert places["load"].cause is IdleCause.HOST
    assert places["load"].cause_ns == places["load"].total_ns


def test_the_bottleneck_says_where_most_of_the_time_is_idle(tmp_path: Path) -> None:
    """The start of a program is none of its steps: advice on steps alone would mislead."""
    found = picture_of(steps_that_load(), tmp_path).bottleneck

    assert found is not None
    assert "% are idle outside of every range" in found.evidence
    assert found.remedy.startswith("look at ranges alone, as with --range step, or ")
    chosen = picture_of(steps_that_load(), tmp_path, "step").bottleneck
    assert chosen is not None
    assert "outside" not in chosen.evidence


def test_idle_time_of_a_device_is_in_ranges_of_its_own_process(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 10, 100, api_at=0).launch("a", 1_000, 1_100, api_at=900)
    trace.range("a", 0, 1_100, domain="").range("b", 0, 1_100, domain="", process=200, thread=200)
    trace.launch("b", 10, 1_100, api_at=0, process=200, thread=200, device=1)

    assert [(one.label, one.total_ns) for one in picture_of(trace, tmp_path).idle] == [("a", 900)]


def test_what_lies_in_several_ranges_counts_once(tmp_path: Path) -> None:
    """Two requests that overlap, and one of no length: the one that was opened last has the time."""
    trace = TraceBuilder().launch("a", 0, 100, api_at=0).launch("a", 1_000, 1_100, api_at=900)
    trace.range("a", 50, 600, domain="", is_pushed=False).range("b", 300, 800, domain="", is_pushed=False)
    trace.range("none", 400, 400, domain="", thread=7)

    found = picture_of(trace, tmp_path).idle
    assert {one.label: one.total_ns for one in found} == {OUTSIDE: 200, "a": 200, "b": 500}


def test_the_idle_time_of_a_shared_device_counts_once(tmp_path: Path) -> None:
    trace = TraceBuilder().board("GPU-1", "H200", process=100)
    for process in (100, 200):
        trace.range("step", 0, 1_000, domain="", process=process, thread=process)
        trace.launch("a", 0, 100, api_at=0, process=process, thread=process)
        trace.launch("a", 900, 1_000, api_at=800, process=process, thread=process)
    trace.row("TARGET_INFO_CUDA_DEVICE", gpuId=1 << 56, cudaId=0, pid=200)

    assert [(one.label, one.total_ns) for one in picture_of(trace, tmp_path).idle] == [("step", 800)]


def test_without_ranges_there_is_no_place(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("a", 10, 100, api_at=0).launch("a", 1_000, 1_100, api_at=900)

    assert picture_of(trace, tmp_path).idle == ()


def test_the_places_of_a_recording_add_up_to_its_idle_time() -> None:
    """What is outside of every range is counted again, gap by gap."""
    trace = load_trace(RECORDING)
    picture = analyse(trace)
    idle_ns = sum(one.total_ns for one in picture.states if isinstance(one.state, IdleCause))
    assert sum(one.total_ns for one in picture.idle) == idle_ns

    ranges = sorted(zip(trace.ranges.start_ns.tolist(), trace.ranges.end_ns.tolist(), strict=True))
    work = sorted(zip(trace.launches.start_ns.tolist(), trace.launches.end_ns.tolist(), strict=True))
    gaps, done_ns = [], work[0][0]
    for start_ns, end_ns in work:
        if start_ns > done_ns:
            gaps.append((done_ns, start_ns))
        done_ns = max(done_ns, end_ns)
    outside_ns = 0
    for low_ns, high_ns in gaps:
        at_ns = low_ns
        for start_ns, end_ns in ranges:
            if end_ns > at_ns and start_ns < high_ns:
                outside_ns += max(0, start_ns - at_ns)
                at_ns = max(at_ns, end_ns)
        outside_ns += max(0, high_ns - at_ns)
    (outside,) = (one for one in picture.idle if one.label == OUTSIDE)
    assert outside.total_ns == pytest.approx(outside_ns)
    assert outside.largest_ns <= outside.total_ns


def solver(start_ns: int) -> TraceBuilder:
    """A program without ranges: a kernel, a start of this length, then ten steps of 1 ms with gaps of 0.5 ms."""
    trace = TraceBuilder().launch("init", 100, 200, api_at=0)
    for step in range(10):
        at = start_ns + 1_500_000 * step
        trace.launch("stencil", at + 100, at + 1_000_000, api_at=at)
    return trace


def test_one_gap_that_is_most_of_a_program_without_ranges_is_pointed_out(tmp_path: Path) -> None:
    """The start of a program: what is slow in its steps does not show in shares of the whole."""
    found = picture_of(solver(2_000_000_000), tmp_path).bottleneck

    assert found is not None
    assert "one gap has 2.00 s, 100 ns after the first launch" in found.evidence
    assert found.remedy.startswith("record without that gap")


def test_many_gaps_are_no_reason_to_leave_one_out(tmp_path: Path) -> None:
    found = picture_of(solver(600_000), tmp_path).bottleneck

    assert found is not None
    assert "one gap" not in found.evidence


def test_a_gap_of_one_device_while_another_works_is_none_to_leave_out(tmp_path: Path) -> None:
    """What is recorded after that gap is not there: the other device does all of its work meanwhile."""
    trace = TraceBuilder().launch("probe", 0, 100, api_at=-10, device=1)
    for step in range(10):
        at = 1_000_000 * step
        trace.launch("stencil", at + 200, at + 990_000, api_at=at)

    found = picture_of(trace, tmp_path).bottleneck

    assert found is not None
    assert found.limit is BottleneckClass.IMBALANCE
    assert "one gap" not in found.evidence
    assert "--delay" not in found.remedy


def test_a_gap_of_all_devices_is_pointed_out_though_they_reach_it_one_after_the_other(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for device in range(2):
        trace.launch("init", 100, 200 + 300 * device, api_at=0, device=device)
        trace.launch("stencil", 2_000_000_000 - 10 * device, 2_001_000_000, api_at=1_999_000_000, device=device)

    found = picture_of(trace, tmp_path).bottleneck

    assert found is not None
    assert "one gap has 2.00 s, 400 ns after the first launch" in found.evidence
