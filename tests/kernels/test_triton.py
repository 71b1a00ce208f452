from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernels._triton import plan_row_blocks

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None
import importlib, pathlib, torch
for path in pathlib.Path("kernels").glob("[!_]*.py"):
    importlib.import_module(f"kernels.{path.stem}")
from kernels.rms_norm import rms_norm_fused, _launch
x = torch.ones(2, 8)
assert rms_norm_fused(x, torch.ones(8)).shape == (2, 8)
try:
    _launch(x, torch.ones(8), 1e-5, torch.empty(2, 8))
except RuntimeError as error:
    print(error)
"""


def test_without_triton_operators_import_and_run_on_the_cpu_and_a_launch_says_what_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TRITON], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == (
        "kernel _rms_norm_fused_kernel needs Triton, which is not installed here; run 'pip install triton'"
    )


@pytest.mark.parametrize("rows", [0, 1, 7, 128, 4096, 65536, 131072])
@pytest.mark.parametrize("width", [1, 8, 100, 128, 4096, 5000, 32768])
def test_row_blocks_cover_each_row_and_column_and_mask_what_is_beyond(rows: int, width: int) -> None:
    blocks = plan_row_blocks(rows, width)

    covered = blocks.programs * blocks.rows_per_program
    assert rows <= covered < rows + blocks.rows_per_program
    assert width <= blocks.block < 2 * width
    assert blocks.is_exact == (covered == rows and blocks.block == width)


def test_narrow_rows_share_a_program_only_where_many_programs_remain() -> None:
    assert plan_row_blocks(131072, 128).rows_per_program == 32
    assert plan_row_blocks(128, 128).rows_per_program == 1
    assert plan_row_blocks(65536, 4096).rows_per_program == 1


def test_equal_shapes_are_launched_equally() -> None:
    assert plan_row_blocks(37, 100) == plan_row_blocks(37, 100)
