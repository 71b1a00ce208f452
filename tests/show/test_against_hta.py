"""The numbers of `show` against HolisticTraceAnalysis, where both speak: traces in the PyTorch profiler's form.

HTA counts in whole microseconds: it rounds the start of each launch up and its end down, so that one loses less
than 2 us. Events of synchronisation that some traces hold count as kernels there, so that the wall time is compared
on traces without them only.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.analysis.picture import Picture, analyse
from pytest_nsight.analysis.timeline import DeviceWork
from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.show.trace_events import write_trace_events

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data" / "recordings"
MORE = [
    path
    for folder in os.environ.get("PYTEST_NSIGHT_TORCH_TRACES", "").split(":")
    if folder
    for path in sorted(Path(folder).glob("*.json*"))
]
"""Traces of one process each, in folders of an environment variable, separated by colons."""


@pytest.fixture(scope="module", params=["h200_nsys_2025_3", "h200_llama_block_graph_node", *MORE], ids=str)
def trace_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace in the profiler's form: a recording of nsys written so, or one of PyTorch's own."""
    if isinstance(request.param, Path):
        return request.param
    path = tmp_path_factory.mktemp("hta") / "trace.json"
    write_trace_events(load_trace(DATA / f"{request.param}.sqlite.xz"), path)
    return path


@pytest.fixture(scope="module")
def picture(trace_file: Path) -> Picture:
    return analyse(load_trace(trace_file))


@pytest.fixture(scope="module")
def analysis(trace_file: Path) -> Any:
    module = pytest.importorskip("hta.trace_analysis", reason="pip install HolisticTraceAnalysis")
    return module.TraceAnalysis(trace_files={0: str(trace_file)})


def test_wall_idle_and_computing_time_are_those_of_hta(trace_file: Path, picture: Picture, analysis: Any) -> None:
    if trace_file in MORE:
        pytest.skip("it may hold events of synchronisation")
    (row,) = analysis.get_temporal_breakdown(visualize=False).to_dict("records")
    launches = sum(one.calls for one in picture.kernels) + sum(one.count for one in picture.copies)
    states = {one.state: one.total_ns / 1000 for one in picture.states}
    (device,) = picture.devices

    assert launches > 200
    assert device.wall_ns / 1000 == pytest.approx(row["kernel_time(us)"], abs=2)
    assert device.idle_ns / 1000 == pytest.approx(row["idle_time(us)"], abs=2 * launches)
    assert 0 <= states[DeviceWork.KERNEL] - row["compute_time(us)"] < 2 * launches


def test_kernel_and_copy_time_and_each_kernel_are_those_of_hta(picture: Picture, analysis: Any) -> None:
    _, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=10_000, duration_ratio=1.0)
    theirs = kernels.groupby("name")["sum (us)"].sum()
    ours = {one.full_name: (one.total_ns / 1000, one.calls) for one in picture.kernels}

    compared = [name for name in ours if name in theirs]
    for name in compared:
        total_us, calls = ours[name]
        assert 0 <= total_us - theirs[name] < 2 * calls, name
    assert len(compared) > 3
