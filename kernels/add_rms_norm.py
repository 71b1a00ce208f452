"""Residual add + RMSNorm: s = x + residual, y = RMSNorm(s, weight); both s and y are needed afterwards.

For R rows of W elements of B bytes: reads 2*R*W + W and writes 2*R*W elements, 4*R*W*B bytes for many rows,
in one launch. `add_rms_norm_unfused` adds one launch (3*R*W*B bytes) to those of rms_norm_unfused.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from kernels._checks import check_at_most, check_same, check_shape, check_tensor
from kernels._triton import MAX_ROW_ELEMENTS, device_of, jit, load_tile, plan_row_blocks, store_tile, tl
from kernels.rms_norm import rms_norm_reference, rms_norm_unfused

Pair = tuple[torch.Tensor, torch.Tensor]


def add_rms_norm_reference(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5
) -> Pair:
    """The truth in fp32: (y, s), with s rounded to the type of x first, as the residual stream is stored.

    Args:
        x: (..., width).
        residual: like x.
        weight: (width,).
        eps: added to the mean square.
    """
    total = (x.float() + residual.float()).to(x.dtype).float()
    return rms_norm_reference(total, weight, eps), total


def add_rms_norm_unfused(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> Pair:
    """The addition, then RMSNorm as model code writes it: (y, s)."""
    total = x + residual
    return rms_norm_unfused(total, weight, eps), total


@jit
def _add_rms_norm_fused_kernel(
    x_ptr: tl.tensor,
    residual_ptr: tl.tensor,
    weight_ptr: tl.tensor,
    out_ptr: tl.tensor,
    total_ptr: tl.tensor,
    rows: tl.tensor,
    eps: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    EXACT: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    x = load_tile(x_ptr, row, column, rows, WIDTH, EXACT)
    residual = load_tile(residual_ptr, row, column, rows, WIDTH, EXACT)
    weight = load_tile(weight_ptr, tl.zeros((1,), tl.int64), column, 1, WIDTH, WIDTH == BLOCK)
    # The norm sees the sum as the next layer will read it: rounded.
    total = (x + residual).to(total_ptr.dtype.element_ty).to(tl.float32)
    store_tile(total_ptr, row, column, total, rows, WIDTH, EXACT)
    rstd = tl.rsqrt(tl.sum(total * total, axis=1) / WIDTH + eps)
    store_tile(out_ptr, row, column, total * rstd[:, None] * weight, rows, WIDTH, EXACT)


def add_rms_norm_fused(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> Pair:
    """(y, s) in one launch that reads and writes each element once.

    On the CPU it is an addition and `torch.nn.functional.rms_norm`.

    Args:
        x: (..., width), contiguous, bf16 or fp32.
        residual: like x.
        weight: (width,), of the type and on the device of x.
        eps: added to the mean square.

    Raises:
        TypeError: an argument of an unsupported or other element type.
        ValueError: an unsupported shape, device or memory layout.
    """
    check_tensor("x", x)
    check_same("residual", residual, "x", x)
    check_shape("weight", weight, (x.shape[-1],), "x", x)
    check_at_most("x", x, MAX_ROW_ELEMENTS)
    if x.device.type == "cpu":
        total = x + residual
        return F.rms_norm(total, (x.shape[-1],), weight, eps), total
    return _launch(x, residual, weight, eps, (torch.empty_like(x), torch.empty_like(x)))


def _launch(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, outs: Pair) -> Pair:
    width = x.shape[-1]
    rows = x.numel() // width
    blocks = plan_row_blocks(rows, width)
    with device_of(x):
        _add_rms_norm_fused_kernel[(blocks.programs,)](
            x,
            residual,
            weight,
            *outs,
            rows,
            eps,
            WIDTH=width,
            BLOCK=blocks.block,
            ROWS=blocks.rows_per_program,
            EXACT=blocks.is_exact,
            num_warps=blocks.num_warps,
        )
    return outs


add_rms_norm: dict[str, Callable[..., Pair]] = {"fused": add_rms_norm_fused, "unfused": add_rms_norm_unfused}
"""The variants by the names that perf tests use."""


def add_rms_norm_bytes(rows: int, width: int, itemsize: int) -> int:
    """Bytes that must move: x, the residual and the weight read, y and s written."""
    return (4 * rows * width + width) * itemsize


def add_rms_norm_flops(rows: int, width: int) -> int:
    """Floating-point operations: two additions, a square, two multiplications an element."""
    return 5 * rows * width
