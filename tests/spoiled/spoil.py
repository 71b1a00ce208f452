"""A pytest plugin that makes the fused RMSNorm worse in a known way, to see whether the gate notices.

    NSIGHT_SPOIL=slow    python -m pytest -p tests.spoiled.spoil --nsight perf_tests/test_rms_norm.py
    NSIGHT_SPOIL=unfused python -m pytest -p tests.spoiled.spoil --nsight perf_tests/test_rms_norm.py

slow: the same kernel name, grid and block, but every 20th program works on a second row: 5 % more bytes.
NSIGHT_SPOIL_PERCENT chooses another share. unfused: the launches of the unfused variant, under the fused id.
On a GPU only 4096 rows and more are spoiled, so that `fused-b1x128` must stay unchanged beside them; on the CPU
every number of rows is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kernels import rms_norm as operator
from kernels._triton import device_of, jit, load_tile, plan_row_blocks, store_tile, tl

SPOILED_ROWS = 4096
SOUND_REGISTERS = 40

_fused = operator.rms_norm_fused

# The last input and its padded copy: made once, in a round that warms up, so that no later round shows it.
_padded: list[tuple[torch.Tensor, int, torch.Tensor]] = []


@jit
def _rms_norm_fused_kernel(
    x_ptr: tl.tensor,
    weight_ptr: tl.tensor,
    out_ptr: tl.tensor,
    rows: tl.tensor,
    eps: tl.tensor,
    blocks: tl.tensor,
    every: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    EXACT: tl.constexpr,
) -> None:
    column = tl.arange(0, BLOCK)
    weight = load_tile(weight_ptr, tl.zeros((1,), tl.int64), column, 1, WIDTH, WIDTH == BLOCK)
    turns = tl.where(tl.program_id(0) % every == 0, 2, 1)
    for turn in range(turns):
        # The second block lies half the matrix away: it is in no cache, and it gets the same values again.
        block = (tl.program_id(0) + turn * (blocks // 2)) % blocks
        row = (tl.zeros((ROWS,), tl.int64) + block) * ROWS + tl.arange(0, ROWS)
        x = load_tile(x_ptr, row, column, rows, WIDTH, EXACT)
        rstd = tl.rsqrt(tl.sum(x * x, axis=1) / WIDTH + eps)
        store_tile(out_ptr, row, column, x * rstd[:, None] * weight, rows, WIDTH, EXACT)


def launch_slow(
    x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor, percent: float
) -> torch.Tensor:
    """RMSNorm with `percent` more rows read and written than needed, in the launch of the sound one."""
    width = x.shape[-1]
    rows = x.numel() // width
    blocks = plan_row_blocks(rows, width)
    with device_of(x):
        _rms_norm_fused_kernel[(blocks.programs,)](
            x,
            weight,
            out,
            rows,
            eps,
            blocks.programs,
            round(100 / percent),
            WIDTH=width,
            BLOCK=blocks.block,
            ROWS=blocks.rows_per_program,
            EXACT=blocks.is_exact,
            num_warps=blocks.num_warps,
            # As many as the sound kernel has: its loop would take more, fit fewer blocks on a multiprocessor,
            # and cost another 6 %.
            maxnreg=SOUND_REGISTERS,
        )
    return out


def compute_slow_on_cpu(x: torch.Tensor, weight: torch.Tensor, eps: float, percent: float) -> torch.Tensor:
    """Torch's RMSNorm over `percent` more rows than asked for, by the very same operators."""
    rows, width = x.shape
    if not _padded or _padded[0][0] is not x or _padded[0][1] != x._version:
        _padded[:] = [(x, x._version, torch.cat((x, x[: math.ceil(rows * percent / 100)])))]
    out = F.rms_norm(_padded[0][2], (width,), weight, eps)
    # Cutting the surplus off by torch would be one more operator in the trace: a change of structure.
    return torch.from_dlpack(np.from_dlpack(out)[:rows])


def make_spoiled(kind: str, percent: float) -> Callable[..., torch.Tensor]:
    """The fused RMSNorm, worse: kind is "slow" or "unfused"."""

    def spoiled(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
        if x.is_cuda and x.numel() // x.shape[-1] < SPOILED_ROWS:
            return _fused(x, weight, eps)
        if kind == "unfused":
            return operator.rms_norm_unfused(x, weight, eps)
        if x.is_cuda:
            return launch_slow(x, weight, eps, torch.empty_like(x), percent)
        return compute_slow_on_cpu(x, weight, eps, percent)

    return spoiled


def pytest_configure(config: pytest.Config) -> None:
    """Put the spoiled variant in the place of the sound one, as NSIGHT_SPOIL says."""
    kind = os.environ.get("NSIGHT_SPOIL", "none")
    if kind not in ("none", "slow", "unfused"):
        raise pytest.UsageError(f"NSIGHT_SPOIL is {kind!r}, one of none, slow, unfused is needed")
    percent = float(os.environ.get("NSIGHT_SPOIL_PERCENT", "5"))
    if not 0 < percent <= 100:
        raise pytest.UsageError(f"NSIGHT_SPOIL_PERCENT is {percent:g}, more than 0 and at most 100 is needed")
    if kind != "none":
        operator.rms_norm["fused"] = make_spoiled(kind, percent)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Put the sound variant back, for a process that runs pytest more than once."""
    operator.rms_norm["fused"] = _fused
    _padded.clear()
