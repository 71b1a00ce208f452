"""What the walk through one step follows, on traces of a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.analysis.critical_path import PathPart
from pytest_nsight.analysis.picture import analyse
from pytest_nsight.collectors.nsys.read import read
from tests.trace.trace_builder import TraceBuilder


def path_of(builder: TraceBuilder, folder: Path) -> dict[PathPart, int]:
    path = analyse(read(builder.write(folder / "trace.sqlite"))).path
    assert path is not None
    found: dict[PathPart, int] = {}
    for part in path.parts:
        found[part.part] = found.get(part.part, 0) + part.total_ns
    return found


def host_limited_step() -> TraceBuilder:
    """Ten short kernels whose host waits for none of them."""
    trace = TraceBuilder().range("step", 0, 1000, domain="")
    for at in range(0, 1000, 100):
        trace.launch("k", at + 20, at + 60, api_at=at + 10)
    return trace


@pytest.mark.parametrize(("process", "thread"), [(200, 200), (100, 7)], ids=["process", "thread"])
def test_a_wait_elsewhere_does_not_put_kernels_on_the_path(process: int, thread: int, tmp_path: Path) -> None:
    """Another rank, or a thread that launches nothing of the step, may wait all the time."""
    alone = path_of(host_limited_step(), tmp_path)
    trace = host_limited_step()
    for at in range(0, 1000, 100):
        trace.call("cudaEventSynchronize_v3020", at + 50, at + 65, process=process, thread=thread)

    assert path_of(trace, tmp_path) == alone == {PathPart.HOST: 950, PathPart.DELAY: 10, PathPart.DEVICE: 40}


@pytest.mark.parametrize("thread", [100, 7], ids=["own thread", "autograd"])
def test_a_wait_of_a_thread_of_the_step_puts_kernels_on_the_path(thread: int, tmp_path: Path) -> None:
    trace = TraceBuilder().range("step", 0, 1000, domain="").launch("a", 20, 500, api_at=10, thread=thread)
    trace.call("cudaStreamSynchronize_v3020", 15, 505).launch("b", 620, 990, api_at=610, thread=thread)

    assert path_of(trace, tmp_path)[PathPart.DEVICE] == 480 + 370


def write_epoch(folder: Path) -> Path:
    """One epoch of six steps."""
    trace = TraceBuilder().range("epoch", 0, 6_000, domain="")
    for at in range(0, 6_000, 1_000):
        trace.range("step", at + 10, at + 900, domain="").launch("k", at + 30, at + 800, api_at=at + 20)
    return trace.write(folder / "trace.sqlite")


@pytest.mark.parametrize(("chosen", "step"), [("", "step"), ("epoch", "epoch")])
def test_the_step_of_an_epoch_is_what_it_repeats(chosen: str, step: str, tmp_path: Path) -> None:
    path = analyse(read(write_epoch(tmp_path)), name=chosen).path

    assert path is not None
    assert path.name == step


def test_a_step_that_is_recorded_three_times_is_no_epoch(tmp_path: Path) -> None:
    """It repeats a layer, and is what the user wants to see."""
    trace = TraceBuilder()
    for step in range(3):
        trace.range("step", step * 10_000, step * 10_000 + 9_000, domain="")
        for layer in range(8):
            at = step * 10_000 + layer * 1_000
            trace.range("layer", at + 10, at + 900, domain="").launch("k", at + 30, at + 800, api_at=at + 20)
    path = analyse(read(trace.write(tmp_path / "trace.sqlite"))).path

    assert path is not None
    assert path.name == "step"


def test_what_another_thread_launches_in_ranges_of_its_own_is_no_work_of_the_step(tmp_path: Path) -> None:
    """Two threads that serve requests side by side."""
    trace = TraceBuilder().range("a", 0, 900, domain="").launch("kernel_a", 20, 500, api_at=10)
    trace.range("b", 300, 1_000, domain="", thread=7)
    trace.launch("kernel_b", 320, 600, api_at=310, thread=7, stream=8).call(
        "cudaStreamSynchronize", 320, 610, thread=7
    )
    path = analyse(read(trace.write(tmp_path / "trace.sqlite"))).path

    assert path is not None
    assert path.name == "a"
    assert {part.name for part in path.parts} == {"", "kernel_a"}
