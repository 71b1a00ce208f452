"""Which launches left no kernel, and which never should."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_nsight.analysis.picture import analyse
from pytest_nsight.collectors.nsys.read import read
from tests.trace.trace_builder import TraceBuilder

ReadNotes = Callable[[TraceBuilder], str]


@pytest.fixture
def read_notes(tmp_path: Path) -> ReadNotes:
    def find(trace: TraceBuilder) -> str:
        return "\n".join(analyse(read(trace.write(tmp_path / "t.sqlite"))).notes)

    return find


def add_launches(trace: TraceBuilder, number: int) -> TraceBuilder:
    for at in range(0, 100 * number, 100):
        trace.launch("k", at + 20, at + 60, api_at=at + 10)
    return trace


def test_launches_whose_kernels_were_lost_are_counted(read_notes: ReadNotes) -> None:
    trace = add_launches(TraceBuilder(), 3)
    trace.call("cudaLaunchKernel_v7000", 310, 312).call("cuLaunchKernelEx", 410, 412)

    assert "2 of 5 launches (cudaLaunchKernel, cuLaunchKernelEx) left no kernel" in read_notes(trace)


@pytest.mark.parametrize(
    "name", ["cudaLaunchHostFunc_v10000", "cudaMemcpyAsync_v3020", "cudaStreamSynchronize_v3020"]
)
def test_calls_that_launch_no_kernel_lack_none(read_notes: ReadNotes, name: str) -> None:
    assert "left no kernel" not in read_notes(add_launches(TraceBuilder(), 3).call(name, 310, 312))


def test_what_a_graph_captures_launches_nothing_in_that_process_only(read_notes: ReadNotes) -> None:
    trace = add_launches(TraceBuilder(), 3)
    trace.call("cudaStreamBeginCapture_v10000", 300, 301).call("cudaLaunchKernel_v7000", 310, 312, thread=101)
    trace.call("cudaLaunchKernel_v7000", 320, 322, process=200, thread=200)
    trace.call("cudaStreamEndCapture_v10000", 330, 331)

    assert "1 of 5 launches (cudaLaunchKernel) left no kernel" in read_notes(trace)


@pytest.mark.parametrize(("begin", "end"), [(9, 13), (10, 12), (11, 11)])
def test_a_call_of_the_driver_and_the_one_of_the_runtime_around_it_have_one_kernel(
    read_notes: ReadNotes, begin: int, end: int
) -> None:
    trace = add_launches(TraceBuilder(), 3).call("cuLaunchKernel", begin, end)

    assert "left no kernel" not in read_notes(trace)


def test_a_kernel_without_a_call_may_be_that_of_a_call_without_a_kernel(read_notes: ReadNotes) -> None:
    trace = add_launches(TraceBuilder(), 3).launch("k", 420, 460).call("cudaLaunchKernel_v7000", 410, 412)

    assert "left no kernel" not in read_notes(trace)
