"""RMSNorm: y = x / sqrt(mean(x^2) + eps) * weight, over the last dimension.

For R rows of W elements of B bytes: reads R*W + W and writes R*W elements, 2*R*W*B bytes for many rows, which
is what `rms_norm_fused` moves. `rms_norm_unfused` also moves the fp32 copies between its 8 launches (bf16).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from kernels._checks import check_at_most, check_shape, check_tensor
from kernels._triton import MAX_ROW_ELEMENTS, device_of, jit, load_tile, plan_row_blocks, store_tile, tl


def rms_norm_reference(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """The truth in fp32, any number of rows.

    Args:
        x: (..., width).
        weight: (width,).
        eps: added to the mean square.
    """
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight.float()


def rms_norm_unfused(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """RMSNorm as model code writes it: statistics in fp32, the weight applied in the type of x."""
    normed = x.float()
    normed = normed * torch.rsqrt(normed.pow(2).mean(-1, keepdim=True) + eps)
    return weight * normed.to(x.dtype)


@jit
def _rms_norm_fused_kernel(
    x_ptr: tl.tensor,
    weight_ptr: tl.tensor,
    out_ptr: tl.tensor,
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
    weight = load_tile(weight_ptr, tl.zeros((1,), tl.int64), column, 1, WIDTH, WIDTH == BLOCK)
    rstd = tl.rsqrt(tl.sum(x * x, axis=1) / WIDTH + eps)
    store_tile(out_ptr, row, column, x * rstd[:, None] * weight, rows, WIDTH, EXACT)


def rms_norm_fused(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """RMSNorm in one launch that reads and writes each element once; fp32 inside, rounded once.

    On the CPU it is `torch.nn.functional.rms_norm`.

    Args:
        x: (..., width), contiguous, bf16 or fp32.
        weight: (width,), of the type and on the device of x.
        eps: added to the mean square.

    Raises:
        TypeError: an argument of an unsupported or other element type.
        ValueError: an unsupported shape, device or memory layout.
    """
    check_tensor("x", x)
    check_shape("weight", weight, (x.shape[-1],), "x", x)
    check_at_most("x", x, MAX_ROW_ELEMENTS)
    if x.device.type == "cpu":
        return F.rms_norm(x, (x.shape[-1],), weight, eps)
    return _launch(x, weight, eps, torch.empty_like(x))


def _launch(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> torch.Tensor:
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
            WIDTH=width,
            BLOCK=blocks.block,
            ROWS=blocks.rows_per_program,
            EXACT=blocks.is_exact,
            num_warps=blocks.num_warps,
        )
    return out


rms_norm: dict[str, Callable[..., torch.Tensor]] = {"fused": rms_norm_fused, "unfused": rms_norm_unfused}
"""The variants by the names that perf tests use."""


def rms_norm_bytes(rows: int, width: int, itemsize: int) -> int:
    """Bytes that must move: x and the weight read, y written."""
    return (2 * rows * width + width) * itemsize


def rms_norm_flops(rows: int, width: int) -> int:
    """Floating-point operations: square, add, two multiplications an element."""
    return 4 * rows * width
