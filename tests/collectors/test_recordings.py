"""Recordings from real GPUs, against counts that were made without this project's code."""

from __future__ import annotations

import lzma
from pathlib import Path

import pandas as pd
import pytest

from pytest_nsight.collectors.nsys.missing_records import explain_emptiness
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.model.trace import Trace
from pytest_nsight.trace.graph_captures import measure_captured
from pytest_nsight.trace.measures import Measured, measure

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("recordings")
    known: dict[str, Trace] = {}

    def load(name: str) -> Trace:
        if name not in known:
            path = folder / f"{name}.sqlite"
            path.write_bytes(lzma.decompress((RECORDINGS / f"{name}.sqlite.xz").read_bytes()))
            known[name] = read(path)
        return known[name]

    return load


def last_launches(result: Measured) -> dict[str, int]:
    """Launches in the last instance of each range, by the part of its name before "#"."""
    cases = result.ranges["name"].str.split("#").str[0]
    return result.ranges.groupby(cases)["launches"].last().to_dict()


BY_ANY_THREAD = {
    "train_step": 370, "forward": 71, "backward": 107, "optimizer": 192, "infer": 68, "streams": 2, "h2d": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "graph"), [("h200_llama_block_graph_node", 68), ("h200_llama_block_graph_whole", 1)]
)
def test_every_thread_s_launches_are_in_the_round(recording, name, graph):
    """Autograd launches 106 of the 107 kernels of the backward pass from a thread of its own."""
    found = last_launches(measure(recording(name)))
    assert found | BY_ANY_THREAD | {"graph": graph} == found


def test_a_graph_s_nodes_run_as_long_as_the_graph_traced_whole(recording):
    node, whole = (measure(recording(f"h200_llama_block_graph_{mode}")) for mode in ("node", "whole"))
    spans = [m.ranges.loc[m.ranges["name"].str.startswith("graph#"), "span_ns"].median() for m in (node, whole)]
    assert spans[0] == pytest.approx(spans[1], rel=0.1)
    kinds = {whole.shapes[s].kind for s in whole.kernels["shape"][whole.kernels["range"] == whole.ranges.index[-1]]}
    assert kinds <= {"kernel", "memcpy", "memset", "graph"}
    assert [s.kind for s in whole.shapes].count("graph") == 1


def test_two_streams_are_busy_for_less_than_their_kernels_take(recording):
    ranges = measure(recording("h200_llama_block_graph_node")).ranges
    streams = ranges[ranges["name"].str.startswith("streams#")]
    assert len(streams) == 20
    # The first instance waits for its second stream's set-up, and does not overlap.
    assert (streams["busy_ns"] < 0.9 * streams["kernel_ns"]).sum() == 19
    assert (streams["busy_ns"] <= streams["span_ns"]).all()


def test_pinned_copies_are_measured_apart(recording):
    ranges = measure(recording("h200_llama_block_graph_node")).ranges
    h2d = ranges[ranges["name"].str.startswith("h2d#")]
    assert len(h2d) == 10
    assert (h2d["copied_bytes"] >= 2 * 128 * 2**20).all()
    assert (h2d["copy_ns"] > 50 * h2d["kernel_ns"]).all()


def test_every_launch_is_in_a_round_or_counted_as_outside(recording):
    trace = recording("h200_llama_block_graph_node")
    result = measure(trace)
    outermost = result.ranges["name"].str.contains("#")
    inside = int(result.ranges.loc[outermost, ["launches", "copies"]].to_numpy().sum())
    # Twelve ranges of warm-up parts lie outside of rounds; they hold launches of their own.
    parts = result.ranges[~outermost]
    rounds = result.ranges[outermost]
    starts = rounds["start_ns"].to_numpy()
    at = starts.searchsorted(parts["start_ns"].to_numpy(), side="right") - 1
    loose = (at < 0) | (parts["start_ns"].to_numpy() >= rounds["end_ns"].to_numpy()[at])
    inside += int(parts.loc[loose, ["launches", "copies"]].to_numpy().sum())
    assert inside + sum(one.count for one in result.unattributed) == len(trace.launches)
    assert result.notes == ()


def test_two_versions_of_nsys_give_the_same_launches_of_one_program(recording):
    new, old = recording("h200_nsys_2025_3"), recording("h200_nsys_2024_2_3")
    assert new.shapes == old.shapes
    counts = [sorted(trace.shapes[number] for number in trace.launches.shape) for trace in (new, old)]
    assert counts[0] == counts[1]
    assert len(counts[0]) == 249 + 35
    by_name = [m.ranges.groupby("name")["launches"].sum() for m in (measure(new, ""), measure(old, ""))]
    common = by_name[0].index.intersection(by_name[1].index)
    assert len(common) == 60
    assert by_name[0][common].equals(by_name[1][common])


def test_ranges_that_the_older_nsys_refused_are_explained(recording):
    sentence = explain_emptiness(recording("h200_nsys_2024_2_3"))
    assert sentence is not None
    assert "none of its ranges" in sentence
    assert "2024.2.3" in sentence
    assert explain_emptiness(recording("h200_nsys_2025_3")) is None


def test_a_recording_without_cuda_is_a_trace_with_an_explanation(recording):
    trace = recording("cpu_nsys_2022_4_nvtx_only")
    assert measure(trace).ranges["name"].tolist() == [f"iter{i}" for i in range(5)]
    assert measure(trace, None).ranges["domain"].tolist() == ["", *["pytest_nsight"] * 5]
    assert "no CUDA activity" in str(explain_emptiness(trace))


def test_boards_and_versions_arrive(recording):
    trace = recording("h200_llama_block_graph_node")
    process = int(trace.launches.process[0])
    board = trace.find_device(process, 0)
    assert board is not None
    assert (board.name, len(board.uuid)) == ("NVIDIA H200", 40)
    assert trace.tool == "NVIDIA Nsight Systems 2025.3.2.0"
    assert set(trace.ranges.process.tolist()) == {process}


def test_nodes_of_a_graph_lie_in_the_ranges_of_its_capture_and_add_up(recording):
    """Plain SQL counts 20, 4 and 8 nodes made inside these ranges, 4 of the 20 being memory sets."""
    trace = recording("h200_llama_block_graph_node")
    parts = pd.DataFrame(measure_captured(trace).parts)
    by_replay = parts.groupby(["name", "called_ns"])[["launches", "copies"]].sum().reset_index()
    found = by_replay.groupby(["name", "launches", "copies"]).size().to_dict()
    assert found == {
        ("attention_scores", 16, 4): 20,
        ("attention_softmax", 4, 0): 20,
        ("attention_value", 8, 0): 20,
    }
    assert not len(measure_captured(recording("h200_llama_block_graph_whole")))
