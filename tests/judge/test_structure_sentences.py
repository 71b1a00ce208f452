"""Five ways in which launches come apart, each from the profiler's rows to its own sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.judge.judge import judge
from pytest_nsight.judge.subject_runs import MINIMUM_NEW_RUNS, SubjectRuns
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.values import Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import VerdictKind
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.manifest_events import Round
from pytest_nsight.trace.graph_captures import measure_captured
from pytest_nsight.trace.measures import measure
from pytest_nsight.trace.run_summary import summarise
from tests.trace.trace_builder import TraceBuilder

pytestmark = pytest.mark.slow

ROUNDS = 12
CASE = "test_op.py::test_op"

Body = Callable[[TraceBuilder, int, int], object]
"""Adds the launches of a round: the trace, the round's start, the round's number."""


def fused(trace: TraceBuilder, at: int, number: int) -> None:
    trace.launch("fused", at + 100, at + 3100, api_at=at + 1)


def unfused(trace: TraceBuilder, at: int, number: int) -> None:
    for place, name in enumerate(("pow", "mean", "mul")):
        start = at + 100 + 2000 * place
        trace.launch(name, start, start + 1500, api_at=at + 1 + place)


def tiled(grid: int) -> Body:
    def body(trace: TraceBuilder, at: int, number: int) -> None:
        trace.launch("fused", at + 100, at + 3100, api_at=at + 1, grid=(grid, 1, 1), block=(128, 1, 1))

    return body


def copying(trace: TraceBuilder, at: int, number: int) -> None:
    fused(trace, at, number)
    trace.copy(at + 4000, at + 5000, 64, api_at=at + 10, kind="DtoH")


def without_mul(trace: TraceBuilder, at: int, number: int) -> None:
    trace.launch("pow", at + 100, at + 1600, api_at=at + 1).launch("mean", at + 2100, at + 3600, api_at=at + 2)


def alternating(trace: TraceBuilder, at: int, number: int) -> None:
    fused(trace, at, number)
    if number % 2:
        trace.launch("add", at + 4000, at + 4100, api_at=at + 10)


@pytest.fixture
def summary(tmp_path: Path):
    def run(body: Body, name: str) -> RunSummary:
        trace, rounds = TraceBuilder(), []
        for number in range(ROUNDS):
            at = 100_000 * (number + 1)
            trace.range("test_op", at, at + 50_000, payload=number)
            body(trace, at, number)
            rounds.append(Round(number, CASE, (), 0, 0, 0, cold_cache=False))
        recorded = read(trace.write(tmp_path / f"{name}.sqlite"))
        manifest = Manifest(
            name,
            name.partition("-")[0],
            "",
            "",
            100,
            "H200",
            "GPU-a",
            {},
            (CASE,),
            (CASE,),
            tuple(rounds),
            (),
            (),
            0,
        )
        (found,), problems = summarise(manifest, measure(recorded), measure_captured(recorded))
        assert problems == {}
        return found

    return run


@pytest.fixture
def verdict_of(summary):
    def run(before: Body, now: Body):
        stored = [summary(before, f"old-{number}") for number in range(5)]
        new = [summary(now, f"new-{number}") for number in range(MINIMUM_NEW_RUNS)]
        stored = [replace(run, varying=()) for run in stored]
        (verdict,) = judge([SubjectRuns(Subject(CASE), Policy(), tuple(stored), tuple(new))], family=family)
        return verdict

    return run


def test_a_broken_fusion(verdict_of):
    verdict = verdict_of(fused, unfused)

    assert verdict.kind is VerdictKind.STRUCTURE
    assert verdict.sentence == (
        "test_op: launches changed, 1 -> 3 per round, as when a fusion is lost: - 1 launch: fused   + 3 launches: "
        "pow, mean, mul; kernel time 3.00 -> 4.50 us (+50.0 %)"
    )
    assert verdict.listing == ": - 1 launch: fused   + 3 launches: pow, mean, mul"


def test_a_fusion_gained(verdict_of):
    assert (
        "launches changed, 3 -> 1 per round, as when kernels are fused: - 3 launches"
        in verdict_of(unfused, fused).sentence
    )


def test_a_changed_tile(verdict_of):
    verdict = verdict_of(tiled(1024), tiled(256))

    assert verdict.kind is VerdictKind.STRUCTURE
    assert verdict.listing.startswith(": fused grid 1024")
    assert verdict.listing in verdict.sentence
    assert verdict.sentence == (
        "test_op: same kernels, other launch shapes (another tile, an autotuner's choice or another size): "
        "fused grid 1024x1x1 block 128x1x1 -> fused grid 256x1x1 block 128x1x1; kernel time 3.00 -> 3.00 us "
        "(0 %); if intended, save it with --nsight-save"
    )


def test_a_gained_copy(verdict_of):
    verdict = verdict_of(fused, copying)

    assert verdict.kind is VerdictKind.STRUCTURE
    assert verdict.sentence == (
        "test_op: copies changed, launches did not (1 per round): + 1 copy: memcpy DtoH; "
        "kernel time 3.00 -> 3.00 us (0 %)"
    )


def test_a_lost_launch(verdict_of):
    verdict = verdict_of(unfused, without_mul)

    assert verdict.kind is VerdictKind.STRUCTURE
    assert verdict.sentence == (
        "test_op: launches lost, 3 -> 2 per round: - 1 launch: mul; kernel time 4.50 -> 3.00 us (-33.3 %)"
    )


def test_a_launch_gained(verdict_of):
    assert "launches gained, 2 -> 3 per round: + 1 launch: mul" in verdict_of(without_mul, unfused).sentence


def test_an_unstable_case(verdict_of):
    verdict = verdict_of(fused, alternating)

    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert verdict.sentence.startswith(
        "test_op: launches differ from round to round (add 0 to 1), as they did not in the baseline; kernel time "
    )
    assert verdict.sentence.endswith("fix its shapes and seeds, or save it so with --nsight-save")
