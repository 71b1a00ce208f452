"""What a run's manifest and trace become, where that is more than one range a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.collectors.torch.events import build_trace
from pytest_nsight.model.values import RunSummary
from pytest_nsight.protocol.conditions import Conditions, CpuTimes
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.manifest_events import Round
from pytest_nsight.trace.graph_captures import measure_captured
from pytest_nsight.trace.measures import measure
from pytest_nsight.trace.run_summary import summarise
from tests.trace.trace_builder import TraceBuilder

CASE = "test_x.py::test_x"
DEVICE_METRICS = {"kernel", "busy", "span", "gap", "copy"}


def manifest(*parts: tuple[tuple[int, str], ...]) -> Manifest:
    """Of rounds 100, 200, ... with these parts."""
    rounds = tuple(
        Round(100 * (index + 1), CASE, own, 0, 0, 0, cold_cache=False) for index, own in enumerate(parts)
    )
    return Manifest("r", "s", "", "", 100, "H200", "GPU-a", {}, (CASE,), (CASE,), rounds, (), (), 0)


@pytest.fixture
def summaries(tmp_path: Path):
    def run(builder: TraceBuilder, *parts: tuple[tuple[int, str], ...]) -> dict[str, RunSummary]:
        trace = read(builder.write(tmp_path / "trace.sqlite"))
        found, problems = summarise(manifest(*parts), measure(trace), measure_captured(trace))
        assert problems == {}
        return {summary.subject.part: summary for summary in found}

    return run


def graph_in_rounds(rounds: int = 2) -> TraceBuilder:
    """Captured before the rounds in "attention" (2 kernels) and, twice, in "mlp" (1 kernel each)."""
    trace = TraceBuilder().range("attention", 0, 10, payload=1)
    trace.range("mlp", 10, 20, payload=2).range("mlp", 20, 30, payload=3)
    for node, at in ((1, 2), (2, 4), (3, 12), (4, 22)):
        trace.node_made(at, node)
    for index in range(rounds):
        at = 100 * (index + 1)
        trace.range("test_x", at, at + 90, payload=at)
        starts = (("a", 10, 15), ("b", 20, 25), ("c", 30, 31), ("c", 50, 52))
        trace.graph_nodes([(name, at + start, at + end) for name, start, end in starts], api_at=at + 1)
    return trace


def test_parts_of_a_replayed_graph_are_subjects_of_the_rounds_that_replay_it(summaries):
    found = summaries(graph_in_rounds(), (), ())

    assert list(found) == ["", "attention", "mlp"]
    assert found[""].rounds["kernel"] == (13, 13)
    assert found["attention"].rounds["kernel"] == (10, 10)
    assert found["attention"].rounds["span"] == (15, 15)
    assert found["mlp"].rounds["kernel"] == (3, 3)
    # Opened twice: the spans of both, without what ran between them.
    assert found["mlp"].rounds["span"] == (3, 3)
    assert set(found["mlp"].rounds) == DEVICE_METRICS
    assert [(use.shape.name, use.count) for use in found["mlp"].shapes] == [("c", 2)]


def three_rounds() -> TraceBuilder:
    """A kernel of 40 ns in each."""
    trace = TraceBuilder()
    for at in (100, 200, 300):
        trace.range("test_x", at, at + 90, payload=at).launch("k", at + 20, at + 60, api_at=at + 10)
    return trace


def summarise_rounds(trace: TraceBuilder, folder: Path, **options: Any) -> tuple[Any, Mapping[str, str]]:
    return summarise(manifest((), (), ()), measure(read(trace.write(folder / "trace.sqlite")), **options))


LAUNCH = "cudaLaunchKernel_v7000"
ROUNDS = {100: {100, 200, 300}}


@pytest.mark.parametrize(
    "trace",
    [
        three_rounds().call(LAUNCH, 292, 295),
        three_rounds().call(LAUNCH, 250, 252, code=1),
        three_rounds().call(LAUNCH, 250, 252).launch("k", 262, 270),
        three_rounds().call(LAUNCH, 250, 252, process=900, thread=900),
    ],
    ids=["between rounds", "failed", "of a kernel without a call", "of another process"],
)
def test_a_call_that_launched_no_kernel_of_a_round_leaves_the_case_whole(
    trace: TraceBuilder, tmp_path: Path
) -> None:
    found, problems = summarise_rounds(trace, tmp_path, rounds=ROUNDS)

    assert not problems
    assert {len(summary.rounds["kernel"]) for summary in found} == {3}


@pytest.mark.parametrize(
    "trace",
    [
        three_rounds().call(LAUNCH, 250, 252),
        three_rounds().call(LAUNCH, 250, 252).launch("k", 362, 370),
        three_rounds().call(LAUNCH, 250, 252, process=900, thread=900),
    ],
    ids=["in a round", "beside a kernel without a call in another round", "in a child"],
)
def test_a_case_whose_rounds_lack_kernels_of_launches_is_not_summarised(
    trace: TraceBuilder, tmp_path: Path
) -> None:
    found, problems = summarise_rounds(trace, tmp_path, rounds=ROUNDS, parents={900: 100})

    assert not found
    assert problems[CASE].startswith("1 launch in 1 of 3 rounds left no kernel in the trace: they failed, or")


def test_a_part_that_is_both_replayed_and_launched_in_a_round_is_both_together(summaries):
    trace = graph_in_rounds()
    for at in (100, 200):
        trace.range("mlp", at + 5, at + 9, payload=at + 1).launch("eager", at + 60, at + 67, api_at=at + 6)
    found = summaries(trace, ((101, "mlp"),), ((201, "mlp"),))

    assert found["mlp"].rounds["kernel"] == (10, 10)
    assert [(use.shape.name, use.count) for use in found["mlp"].shapes] == [("c", 2), ("eager", 1)]
    assert found["mlp"].rounds["wall"] == (4, 4)


def test_replays_outside_of_rounds_count_for_none(summaries):
    trace = graph_in_rounds(1)
    trace.graph_nodes([("a", 900, 950)], api_at=890)
    assert summaries(trace, ())["attention"].rounds["kernel"] == (10,)


def test_a_part_nested_in_one_of_its_own_name_counts_once(summaries):
    trace = TraceBuilder().range("test_x", 100, 190, payload=100)
    for payload, start, end in ((1, 105, 150), (2, 110, 120), (3, 160, 170)):
        trace.range("block", start, end, payload=payload)
    trace.launch("k", 120, 125, api_at=112).launch("k", 125, 129, api_at=130).launch("k", 170, 172, api_at=165)
    found = summaries(trace, ((1, "block"), (2, "block"), (3, "block")))

    assert found["block"].rounds["kernel"] == (11,)
    assert found["block"].rounds["wall"] == (55,)
    assert [(use.shape.name, use.count) for use in found["block"].shapes] == [("k", 3)]


def test_what_varies_from_round_to_round_is_told(summaries):
    trace = TraceBuilder().range("test_x", 100, 190, payload=100).range("test_x", 200, 290, payload=200)
    trace.launch("same", 110, 115, api_at=101).launch("same", 210, 215, api_at=201)
    trace.launch("more", 120, 125, api_at=102)
    trace.launch("grid", 130, 135, api_at=103, grid=(1, 1, 1)).launch("grid", 230, 235, api_at=203, grid=(2, 1, 1))
    summary = summaries(trace, (), ())[""]

    assert not summary.is_stable
    assert [(each.shape.name, each.shape.grid[0], each.least, each.most) for each in summary.varying] == [
        ("more", 1, 0, 1),
        ("grid", 1, 0, 1),
        ("grid", 2, 0, 1),
    ]


@pytest.mark.parametrize(
    ("board", "what"), [("GPU-a", "GPU kernel"), ("MIG-a", "GPU kernel"), ("AMD EPYC 9654", "CPU operator")]
)
def test_a_round_without_launches_is_told_in_the_words_of_its_board(tmp_path: Path, board: str, what: str) -> None:
    trace = read(TraceBuilder().range("test_x", 100, 190, payload=100).write(tmp_path / "trace.sqlite"))
    told = replace(manifest(()), board=board, environment={"collector": "torch"})

    found, problems = summarise(told, measure(trace))

    assert found == ()
    assert problems[CASE].startswith(f"no {what} ran")


@pytest.mark.parametrize(
    ("board", "cause"),
    [
        ("AMD EPYC 9654", "the machine has no visible CUDA device, and nsys records no CPU operators; leave "),
        ("GPU-a", "does the measured function do its work on the device"),
    ],
)
def test_a_round_without_kernels_under_nsys_says_whether_there_was_a_device(
    tmp_path: Path, board: str, cause: str
) -> None:
    trace = read(TraceBuilder().range("test_x", 100, 190, payload=100).write(tmp_path / "trace.sqlite"))

    _, problems = summarise(replace(manifest(()), board=board, environment={"collector": "nsys"}), measure(trace))

    assert problems[CASE].startswith(f"no GPU kernel ran in the measured rounds: {cause}")


@pytest.mark.parametrize(("waiting_ns", "share"), [(0, 0.0), (25, 0.25), (None, None)])
def test_what_other_programs_took_of_the_cpu_stands_beside_the_rounds(
    tmp_path: Path, waiting_ns: int | None, share: float | None
) -> None:
    trace = read(TraceBuilder().range("test_x", 100, 190, payload=100).launch("k", 110, 120, api_at=105).write(
        tmp_path / "trace.sqlite"
    ))  # fmt: skip
    used = CpuTimes(100, 75, waiting_ns, None, 80, 3)
    conditions = Conditions(CASE, 1, 0, 0, 0, None, 100, None, (), used)

    (found,), _ = summarise(
        replace(manifest(()), conditions={CASE: conditions}), measure(trace), measure_captured(trace)
    )

    assert found.clocks.processor_lost == share


def test_operators_of_the_cpu_are_no_work_of_a_gpu():
    """As where another profiler has taken CUPTI: torch.profiler then records calls and operators only."""
    events = []
    for at in (100, 200):
        events += [
            {"cat": "user_annotation", "name": f"pytest_nsight:{at}:t", "ts": at, "dur": 90, "pid": 100, "tid": 1},
            {"cat": "cpu_op", "name": "aten::mul", "ts": at + 5, "dur": 20, "pid": 100, "tid": 1},
        ]
    measured = measure(build_trace([events]))
    on_gpu = manifest((), ())

    found, problems = summarise(on_gpu, measured)
    on_cpu, none = summarise(replace(on_gpu, board="EPYC, 2 threads"), measured)

    assert not found
    assert problems[CASE].startswith("torch.profiler recorded operators of the CPU and nothing that the GPU ran")
    assert [one.rounds["kernel"] for one in on_cpu] == [(20_000, 20_000)]
    assert not none
