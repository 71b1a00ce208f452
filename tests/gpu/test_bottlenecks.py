"""Programs that are limited by one thing are said to be, on a real GPU; with the remedy applied they no longer are.

PYTEST_NSIGHT_REQUIRE_GPU=1 python -m pytest tests/gpu/test_bottlenecks.py -v
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_nsight.analysis.limit_classes import BottleneckClass
from pytest_nsight.analysis.picture import analyse
from pytest_nsight.collectors.open_recording import load_trace
from tests.gpu.conftest import PROGRAMS

CLASSES = {
    "launch_bound": BottleneckClass.LATENCY,
    "launch_mended": BottleneckClass.MEMORY,
    "copy_bound": BottleneckClass.TRANSFER,
    "copy_mended": BottleneckClass.COMPUTE,
    "memory_bound": BottleneckClass.MEMORY,
    "compute_bound": BottleneckClass.COMPUTE,
    "sync_bound": BottleneckClass.SYNCHRONISATION,
    "sync_mended": BottleneckClass.MEMORY,
    "data_bound": BottleneckClass.HOST,
    "data_mended": BottleneckClass.COMPUTE,
    "allocation_bound": BottleneckClass.ALLOCATION,
    "allocation_mended": BottleneckClass.MEMORY,
}


@pytest.fixture(scope="module")
def cuda() -> None:
    """Skips without a GPU, or fails where PYTEST_NSIGHT_REQUIRE_GPU is 1."""
    has_cuda = False
    if importlib.util.find_spec("torch"):
        import torch  # noqa: PLC0415 - as late as the tests that need it

        has_cuda = torch.cuda.is_available()
    if not has_cuda and os.environ.get("PYTEST_NSIGHT_REQUIRE_GPU") == "1":
        pytest.fail("torch sees no CUDA device")
    if not has_cuda:
        pytest.skip("torch sees no CUDA device")


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("name", CLASSES)
def test_a_program_is_limited_by_what_it_was_built_for(name: str, tmp_path: Path) -> None:
    output = tmp_path / "trace.json.gz"
    subprocess.run(
        [sys.executable, str(PROGRAMS / "bound_programs.py"), name, str(output)], check=True, timeout=300
    )
    picture = analyse(load_trace(output))

    assert picture.bottleneck is not None
    assert picture.bottleneck.limit is CLASSES[name], picture.bottleneck.evidence
