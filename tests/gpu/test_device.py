"""A GPU without torch: device control and compiled canaries on a real board, and a session of nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_nsight.collectors.nsys.find import Installation
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.worker.canaries import NAMES
from tests.gpu.conftest import make_project

ROOT = Path(__file__).parents[2]


def test_every_check_of_the_device_holds(gpu: Installation) -> None:
    command = [sys.executable, "-m", "benchmarks.device_check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)

    failed = [line for line in done.stdout.splitlines() if json.loads(line).get("holds") is False]
    assert not failed, failed
    assert done.returncode == 0, done.stderr


def test_a_test_that_never_imports_torch_is_measured_beside_compiled_canaries(
    gpu: Installation, tmp_path: Path
) -> None:
    project = make_project(tmp_path, "driver_only")

    code = project.pytest("--nsight-collector=nsys", "--nsight-save", "--nsight-runs=1", "--nsight-keep")

    assert code == pytest.ExitCode.OK, project.said
    manifest = read_manifest(project.run_folder() / "manifest.jsonl")
    assert "torch" not in manifest.environment
    assert manifest.environment["canaries"].startswith("CUDA C ")
    assert manifest.board.startswith(("GPU-", "MIG-"))
    assert not manifest.canary_faults
    assert {case.rpartition("::")[2] for case in manifest.ended} == {"test_negate", *NAMES}
    assert manifest.reports
    assert all(one.outcome == "passed" for one in manifest.reports)
