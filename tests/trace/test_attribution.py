"""Which launches a range owns, each rule on a trace of a few lines that went through a file."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.trace.measures import Measured, measure
from pytest_nsight.trace.unattributed import UnattributedReason
from tests.trace.trace_builder import TraceBuilder


@pytest.fixture
def measured(tmp_path: Path):
    def run(builder: TraceBuilder, domain: str | None = "pytest_nsight") -> Measured:
        return measure(read(builder.write(tmp_path / "trace.sqlite")), domain)

    return run


def launches(result: Measured) -> dict[str, int]:
    return dict(zip(result.ranges["name"], result.ranges["launches"].tolist(), strict=True))


def one(result: Measured) -> pd.Series:
    assert len(result.ranges) == 1
    return result.ranges.iloc[0]


def test_a_launch_from_another_thread_belongs_to_the_round(measured):
    trace = TraceBuilder().range("case", 0, 100, thread=1).launch("k", 10, 20, api_at=5, thread=2)
    assert launches(measured(trace)) == {"case": 1}


def test_a_kernel_that_outlives_its_range_belongs_to_it_and_not_to_the_next(measured):
    trace = TraceBuilder().range("first", 0, 10).range("second", 10, 90).launch("k", 20, 80, api_at=5)
    result = measured(trace)
    assert launches(result) == {"first": 1, "second": 0}
    assert result.ranges["kernel_ns"].tolist() == [60, 0]


def test_a_call_at_the_border_of_two_ranges_belongs_to_the_later(measured):
    trace = TraceBuilder().range("first", 0, 10).range("second", 10, 20).launch("k", 30, 40, api_at=10)
    assert launches(measured(trace)) == {"first": 0, "second": 1}


def test_a_call_that_begins_in_a_range_and_ends_after_it_belongs_to_it(measured):
    trace = TraceBuilder().range("case", 0, 10).launch("k", 30, 40, api_at=9, api_ns=5)
    assert launches(measured(trace)) == {"case": 1}


def test_overlapping_streams_are_busy_once_but_their_kernels_are_summed(measured):
    trace = TraceBuilder().range("case", 0, 100)
    trace.launch("a", 10, 50, api_at=1, stream=1).launch("b", 30, 70, api_at=3, stream=2)
    trace.launch("c", 80, 90, api_at=5)
    row = one(measured(trace))
    assert (row["kernel_ns"], row["busy_ns"], row["span_ns"], row["gap_ns"]) == (90, 70, 80, 10)


def test_a_kernel_inside_a_longer_one_does_not_shorten_the_union(measured):
    trace = TraceBuilder().range("case", 0, 100)
    trace.launch("long", 10, 90, api_at=1).launch("short", 20, 30, api_at=3).launch("late", 80, 95, api_at=5)
    row = one(measured(trace))
    assert (row["busy_ns"], row["span_ns"]) == (85, 85)


def test_nested_own_ranges_each_count_their_launches(measured):
    trace = TraceBuilder().range("step", 0, 100).range("forward", 0, 40).range("backward", 50, 100)
    trace.launch("f", 10, 20, api_at=5).launch("b", 60, 70, api_at=55, thread=9).launch("o", 80, 90, api_at=45)
    assert launches(measured(trace)) == {"step": 3, "forward": 1, "backward": 1}


def test_a_user_range_takes_its_own_thread_and_what_no_range_of_another_thread_claims(measured):
    trace = (
        TraceBuilder().range("mine", 0, 100, domain="app", thread=1).range("theirs", 0, 100, domain="app", thread=2)
    )
    trace.launch("own", 10, 20, api_at=5, thread=1)
    trace.launch("other", 20, 30, api_at=15, thread=2)
    trace.launch("autograd", 30, 40, api_at=25, thread=3)
    result = measured(trace, "app")
    assert launches(result) == {"mine": 2, "theirs": 2}
    names = {
        name: {result.shapes[s].name for s in result.kernels["shape"][result.kernels["range"] == row]}
        for row, name in enumerate(result.ranges["name"])
    }
    assert names == {"mine": {"own", "autograd"}, "theirs": {"other", "autograd"}}


def test_a_range_takes_the_calls_of_a_helper_thread_that_opens_ranges_around_them(measured):
    """As emit_nvtx does: autograd's thread opens a range around each launch, inside the user's range."""
    trace = (
        TraceBuilder()
        .range("train_step", 0, 100, domain="", thread=1)
        .range("backward", 40, 90, domain="", thread=1)
    )
    for number in range(3):
        at = 50 + 10 * number
        trace.range(f"MmBackward0, seq = {number}", at, at + 8, domain="", thread=2)
        trace.range("aten::mm", at + 1, at + 7, domain="", thread=2)
        trace.launch("mm", 200 + at, 204 + at, api_at=at + 2, thread=2)
    result = measured(trace, "")

    kernel_ns = dict(zip(result.ranges["name"], result.ranges["kernel_ns"].tolist(), strict=True))
    assert kernel_ns["train_step"] == kernel_ns["backward"] == 12
    assert launches(result) | {"aten::mm": 1} == launches(result)
    assert launches(result)["backward"] == 3


def test_threads_that_work_side_by_side_keep_their_own_calls(measured):
    trace = TraceBuilder()
    for thread, shift in ((1, 0), (2, 50)):
        trace.range(f"worker {thread}", shift, shift + 100, domain="", thread=thread)
        trace.launch(f"k{thread}", shift + 60, shift + 70, api_at=shift + 55, thread=thread)
        trace.launch(f"k{thread}", shift + 80, shift + 90, api_at=shift + 75, thread=thread)

    assert launches(measured(trace, "")) == {"worker 1": 2, "worker 2": 2}


def test_a_range_of_a_thread_does_not_claim_what_is_launched_after_it(measured):
    trace = TraceBuilder().range("outer", 0, 100, domain="", thread=1).range("early", 0, 10, domain="", thread=2)
    trace.launch("late", 60, 70, api_at=50, thread=2)
    assert launches(measured(trace, None)) == {"outer": 1, "early": 0}


def test_own_and_user_ranges_together_keep_their_own_rules(measured):
    trace = TraceBuilder().range("case", 0, 100, thread=1).range("block", 0, 100, domain="app", thread=2)
    trace.launch("a", 10, 20, api_at=5, thread=1).launch("b", 20, 30, api_at=15, thread=2)
    assert launches(measured(trace, None)) == {"case": 2, "block": 2}
    assert launches(measured(trace, "app")) == {"block": 2}


def test_a_start_end_range_takes_every_thread(measured):
    trace = TraceBuilder().range("busy", 0, 100, domain="app", thread=2)
    trace.range("span", 0, 100, domain="app", thread=1, is_pushed=False).launch("k", 10, 20, api_at=5, thread=2)
    assert launches(measured(trace, "app")) == {"busy": 1, "span": 1}


def test_all_nodes_of_a_graph_belong_to_the_range_of_its_launch_and_its_call_counts_once(measured):
    trace = TraceBuilder().range("case", 0, 100)
    trace.graph_nodes([("a", 10, 20), ("b", 20, 30), ("a", 30, 40)], api_at=5)
    row = one(measured(trace))
    assert (row["launches"], row["kernel_ns"], row["launch_ns"]) == (3, 30, 2)


def test_a_graph_traced_whole_is_one_launch(measured):
    result = measured(TraceBuilder().range("case", 0, 100).graph(10, 40, api_at=5))
    assert (one(result)["launches"], one(result)["busy_ns"]) == (1, 30)
    assert [shape.kind for shape in result.shapes] == ["graph"]


def test_equal_correlations_of_two_processes_are_kept_apart(measured):
    trace = TraceBuilder().range("a", 0, 100, process=1).range("b", 0, 100, process=2)
    trace.launch("x", 10, 20, api_at=5, process=1, correlation=7)
    trace.launch("y", 10, 40, api_at=5, process=2, correlation=7)
    result = measured(trace)
    assert result.ranges.set_index("name")["kernel_ns"].to_dict() == {"a": 10, "b": 30}


def test_a_range_does_not_take_launches_of_another_process(measured):
    trace = TraceBuilder().range("a", 0, 100, process=1).launch("x", 10, 20, api_at=5, process=2)
    assert launches(measured(trace)) == {"a": 0}


def test_domains_are_numbered_by_each_process_on_its_own(measured):
    trace = TraceBuilder().domain("other", process=2)
    trace.range("a", 0, 10, process=1).range("b", 0, 10, process=2).range("c", 0, 10, process=2, domain="other")
    assert sorted(measured(trace).ranges["name"]) == ["a", "b"]


def test_launches_without_a_call_and_outside_of_ranges_are_counted_by_name(measured):
    trace = TraceBuilder().range("case", 0, 100).launch("in", 10, 20, api_at=5)
    trace.launch("lost", 30, 37).launch("warm", 200, 230, api_at=150).launch("warm", 230, 240, api_at=160)
    result = measured(trace)
    found = [(s.name, s.reason, s.count, s.total_ns) for s in result.unattributed]
    assert found == [("warm", UnattributedReason.OUTSIDE, 2, 40), ("lost", UnattributedReason.NO_CALL, 1, 7)]
    assert len(result.notes) == 1
    assert result.notes[0].startswith("1 of 4 launches has no API call in the recording and is in no range (lost)")
    assert "lost" in result.notes[0]


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        ("CUPTI_ACTIVITY_KIND_KERNEL", "correlationId", "column correlationId is missing or empty"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId", "column correlationId is missing or empty"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid", "columns globalPid of launches and globalTid of calls"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid", "columns globalPid of launches and globalTid of calls"),
    ],
)
def test_an_export_without_ids_is_no_loss_of_the_profiler(table, column, words, measured):
    trace = TraceBuilder().range("case", 0, 100).copy(40, 50, 8, api_at=30)
    trace.launch("k", 10, 20, api_at=5).launch("k", 20, 30, api_at=15)
    for row in trace.rows[table]:
        row[column] = None
    notes = " ".join(measured(trace).notes)

    assert "launches have no API call in the recording" in notes
    assert words in notes
    assert "export the report again with a current nsys" in notes
    assert "lost data" not in notes


def test_a_recording_without_calls_says_how_calls_are_recorded(measured):
    trace = TraceBuilder().range("step", 0, 100, domain="").launch("k", 10, 20, api_at=5)
    del trace.rows["CUPTI_ACTIVITY_KIND_RUNTIME"]
    (note,) = measured(trace, None).notes

    assert "the recording holds no CUDA call; record with `nsys profile --trace=cuda,nvtx`, or export" in note


@pytest.mark.parametrize(
    ("domain", "remedy"),
    [
        ("", "record a shorter part of the program"),
        ("pytest_nsight", "measure fewer cases or rounds at once"),
    ],
)
def test_only_a_session_s_recording_has_cases_and_rounds_to_lose(domain, remedy, measured):
    trace = TraceBuilder().range("case", 0, 100, domain=domain).launch("k", 10, 20, api_at=5)
    trace.launch("lost", 130, 137, correlation=10**6)
    (note,) = measured(trace, domain or None).notes

    assert note.endswith(f"the profiler lost data; {remedy}")


def test_a_cut_window_is_no_loss_of_the_profiler(measured):
    """The calls of the first two kernels lie before the window; their correlations are lower than all others."""
    trace = TraceBuilder().range("step", 100, 200)
    trace.launch("early", 100, 110, correlation=7).launch("early", 110, 120, correlation=8)
    trace.launch("inside", 130, 140, api_at=120, correlation=9)
    result = measured(trace)

    assert [(one.reason, one.count) for one in result.unattributed] == [(UnattributedReason.EARLIER, 2)]
    (note,) = result.notes
    assert note.startswith("2 of 3 launches were launched before the recording began")
    assert "lost" not in note


def test_warm_up_alone_is_nothing_to_note(measured):
    trace = TraceBuilder().range("case", 0, 100).launch("warm", 200, 230, api_at=150)
    assert measured(trace).notes == ()


def test_negative_times_are_times(measured):
    trace = TraceBuilder().range("case", -100, -10).launch("k", -50, -40, api_at=-90)
    row = one(measured(trace))
    assert (row["launches"], row["wall_ns"], row["kernel_ns"]) == (1, 90, 10)


def test_the_order_of_rows_does_not_matter(measured):
    trace = TraceBuilder().launch("b", 40, 60, api_at=35).launch("a", 10, 50, api_at=5)
    trace.range("late", 30, 100).range("early", 0, 30)
    result = measured(trace)
    assert result.ranges["name"].tolist() == ["early", "late"]
    assert result.ranges["kernel_ns"].tolist() == [40, 20]


def test_crossing_repeated_and_backward_ranges_give_what_their_windows_hold(measured):
    trace = TraceBuilder().launch("k", 100, 110, api_at=15).launch("k", 110, 120, api_at=25)
    trace.range("a", 0, 20).range("b", 10, 30).range("a", 0, 20).range("backward", 20, 10)
    result = measured(trace)
    assert result.ranges["launches"].tolist() == [1, 1, 2, 0]
    assert result.ranges["wall_ns"].tolist() == [20, 20, 20, 0]


def test_copies_are_apart_from_kernels_and_their_bytes_are_added(measured):
    trace = TraceBuilder().range("case", 0, 100).launch("k", 10, 20, api_at=5)
    trace.copy(20, 50, 4096, api_at=15).copy(50, 55, 100, api_at=25, kind="DtoH").memset(60, 61, 8, api_at=35)
    result = measured(trace)
    row = one(result)
    assert (row["copies"], row["copy_ns"], row["copied_bytes"]) == (3, 36, 4204)
    assert (row["launches"], row["kernel_ns"], row["span_ns"]) == (1, 10, 10)
    assert {shape.name for shape in result.shapes} == {"k", "memcpy HtoD", "memcpy DtoH", "memset"}


def test_synchronisation_and_launching_are_host_time_in_the_calls(measured):
    trace = TraceBuilder().range("case", 0, 100).launch("k", 10, 20, api_at=5, api_ns=4)
    trace.call("cudaDeviceSynchronize_v3020", 30, 50).call("cudaStreamSynchronize_v3020", 60, 61, thread=9)
    trace.call("cudaMalloc_v3020", 70, 99).call("cudaDeviceSynchronize_v3020", 130, 150)
    row = one(measured(trace))
    assert (row["sync_ns"], row["launch_ns"]) == (21, 4)


def test_shapes_are_told_apart_by_grid_and_counted_by_range(measured):
    trace = TraceBuilder().range("r0", 0, 100).range("r1", 100, 200)
    trace.launch("k", 10, 20, api_at=5, grid=(4, 1, 1)).launch("k", 20, 35, api_at=6, grid=(8, 1, 1))
    trace.launch("k", 35, 45, api_at=7, grid=(4, 1, 1)).launch("k", 110, 120, api_at=105, grid=(8, 1, 1))
    result = measured(trace)
    uses = result.kernels.assign(grid=[result.shapes[s].grid[0] for s in result.kernels["shape"]])
    assert uses[["range", "grid", "count", "total_ns", "first_start_ns"]].to_numpy().tolist() == [
        [0, 4, 2, 20, 10],
        [0, 8, 1, 15, 20],
        [1, 8, 1, 10, 110],
    ]


def test_a_range_without_launches_is_a_row_of_zeros(measured):
    row = one(measured(TraceBuilder().range("case", 0, 100, payload=3)))
    assert row["id"] == 3
    assert row["device"] == -1
    times = ["kernel_ns", "busy_ns", "span_ns", "gap_ns", "copy_ns", "copied_bytes", "sync_ns", "launch_ns"]
    assert row[times].tolist() == [0] * len(times)


def test_the_device_is_that_of_the_first_launch(measured):
    trace = TraceBuilder().range("case", 0, 100)
    trace.launch("b", 40, 50, api_at=5, device=0).launch("a", 10, 20, api_at=6, device=3)
    assert one(measured(trace))["device"] == 3
