"""Runs every `check_*.py` with Triton's interpreter: every kernel, on the CPU, at small ragged shapes.

The interpreter must be chosen before a kernel's module is imported, and it changes Triton for the whole
process; hence a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "interpreted"
SPOILED = Path(__file__).parents[1] / "spoiled"
ROOT = Path(__file__).parents[2]


def test_every_kernel_equals_its_reference_in_the_interpreter() -> None:
    pytest.importorskip("triton", reason="Triton is not installed here; its kernels cannot be interpreted")
    command = [
        *(sys.executable, "-m", "pytest", str(FOLDER), str(SPOILED), "-q", "--no-header", "-p", "no:cacheprovider"),
        *("-p", "no:nsight", "-p", "no:randomly", "-p", "tests.kernels.old_interpreter"),
        *("-o", "python_files=check_*.py"),
        *("-o", "addopts=--import-mode=importlib"),
    ]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"


def test_every_operator_with_a_kernel_is_interpreted() -> None:
    with_kernel = {path.stem for path in (ROOT / "kernels").glob("[!_]*.py") if "_fused_kernel" in path.read_text()}

    assert with_kernel | {"block"} == {path.stem.removeprefix("check_") for path in FOLDER.glob("check_*.py")}
