"""Nodes of a replayed CUDA graph in the ranges of its capture, each rule on a trace that went through a file."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.trace.graph_captures import Captured, measure_captured
from tests.trace.trace_builder import VINTAGES, TraceBuilder


@pytest.fixture
def captured(tmp_path: Path):
    def run(builder: TraceBuilder, domain: str | None = "pytest_nsight") -> Captured:
        return measure_captured(read(builder.write(tmp_path / "trace.sqlite")), domain)

    return run


def two_parts(vintage: str = "2025.3") -> TraceBuilder:
    """A graph of three kernels, captured in "first" (1, 2) and "second" (3), instantiated as 11, 12, 13."""
    trace = TraceBuilder(vintage).range("first", 0, 10).range("second", 10, 20)
    for node, at in ((1, 2), (2, 4), (3, 12)):
        trace.node_made(at, node)
    # A copy is recorded as a node first, and then with its original; both long after the ranges.
    for node in (1, 2, 3):
        trace.node_made(50 + node, 10 + node).node_made(60 + node, 10 + node, original=node)
    return trace


def replay(trace: TraceBuilder, at: int, *, first_node: int = 11) -> TraceBuilder:
    trace.graph_nodes([("a", at + 10, at + 20), ("b", at + 30, at + 40), ("c", at + 50, at + 55)], api_at=at)
    for number, row in enumerate(trace.rows["CUPTI_ACTIVITY_KIND_KERNEL"][-3:]):
        row["graphNodeId"] = first_node + number
    return trace


def rows(result: Captured, *columns: str) -> list[list[object]]:
    return [list(row) for row in zip(*(result.parts[name].tolist() for name in columns), strict=True)]


@pytest.mark.parametrize("vintage", VINTAGES)
def test_nodes_belong_to_the_ranges_of_their_capture_in_each_replay(vintage, captured):
    trace = replay(replay(two_parts(vintage).range("round", 90, 400), 100), 200)
    result = captured(trace)
    assert rows(result, "called_ns", "name", "launches", "kernel_ns", "busy_ns", "span_ns", "gap_ns") == [
        [100, "first", 2, 20, 20, 30, 10],
        [100, "second", 1, 5, 5, 5, 0],
        [200, "first", 2, 20, 20, 30, 10],
        [200, "second", 1, 5, 5, 5, 0],
    ]
    assert pd.DataFrame(result.kernels)[["range", "count", "total_ns"]].to_numpy().tolist() == [
        [0, 1, 10], [0, 1, 10], [1, 1, 5], [2, 1, 10], [2, 1, 10], [3, 1, 5],
    ]  # fmt: skip


def test_a_graph_that_was_instantiated_twice_leads_back_to_its_capture(captured):
    trace = two_parts()
    for node in (1, 2, 3):
        trace.node_made(70 + node, 20 + node).node_made(80 + node, 20 + node, original=10 + node)
    assert rows(captured(replay(trace, 100, first_node=21)), "name", "launches") == [["first", 2], ["second", 1]]


def test_originals_in_a_circle_end(captured):
    trace = TraceBuilder().range("first", 0, 10)
    for node, original in ((11, 12), (12, 13), (13, 11)):
        trace.node_made(2, node, original=original)
    assert rows(captured(replay(trace, 100)), "launches") == [[3]]


def test_a_range_around_capture_and_replay_has_its_nodes_already(captured):
    trace = replay(two_parts().range("everything", -10, 1000), 100)
    assert rows(captured(trace), "name") == [["first"], ["second"]]


def test_nested_ranges_of_a_capture_each_count(captured):
    assert rows(captured(replay(two_parts().range("outer", 0, 30), 100)), "name", "launches") == [
        ["first", 2], ["second", 1], ["outer", 3],
    ]  # fmt: skip


def test_the_same_node_of_two_processes_is_kept_apart(captured):
    trace = two_parts().range("theirs", 0, 30, process=7)
    for node in (11, 12, 13):
        trace.node_made(5, node, process=7)
    assert rows(captured(replay(trace, 100)), "process", "name") == [[100, "first"], [100, "second"]]


def test_only_the_wanted_domain_counts(captured):
    trace = replay(two_parts().range("layer", 0, 30, domain="app"), 100)
    assert rows(captured(trace, "app"), "name", "launches") == [["layer", 3]]
    assert len(captured(trace, None)) == 3
    assert not len(captured(trace, "none"))


def test_without_the_making_of_nodes_there_is_nothing_to_tell(captured):
    trace = TraceBuilder().range("first", 0, 10)
    assert not len(captured(replay(trace, 100)))
    assert not len(captured(TraceBuilder().range("first", 0, 10).launch("k", 10, 20, api_at=5)))
