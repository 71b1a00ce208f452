"""Softmax over the last dimension: y_i = exp(x_i - max(x)) / sum_j exp(x_j - max(x)).

For R rows of W elements of B bytes: reads R*W and writes R*W elements, 2*R*W*B bytes in one launch.
`softmax_unfused` takes 7 launches for bf16 (5 for fp32), most of them over fp32 copies.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernels._checks import check_at_most, check_tensor
from kernels._triton import MAX_ROW_ELEMENTS, device_of, jit, load_tile, plan_row_blocks, store_tile, tl


def softmax_reference(x: torch.Tensor) -> torch.Tensor:
    """The truth in fp32, for (..., width)."""
    exponentials = torch.exp(x.float() - x.float().amax(-1, keepdim=True))
    return exponentials / exponentials.sum(-1, keepdim=True)


def softmax_unfused(x: torch.Tensor) -> torch.Tensor:
    """The formula step by step in fp32, as eager code computes it without a softmax operator."""
    shifted = x.float()
    shifted = shifted - shifted.amax(-1, keepdim=True)
    exponentials = shifted.exp()
    return (exponentials / exponentials.sum(-1, keepdim=True)).to(x.dtype)


@jit
def _softmax_fused_kernel(
    x_ptr: tl.tensor,
    out_ptr: tl.tensor,
    rows: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    EXACT: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    x = load_tile(x_ptr, row, column, rows, WIDTH, EXACT)
    if WIDTH != BLOCK:
        x = tl.where((column < WIDTH)[None, :], x, float("-inf"))
    exponentials = tl.exp(x - tl.max(x, axis=1)[:, None])
    out = exponentials / tl.sum(exponentials, axis=1)[:, None]
    store_tile(out_ptr, row, column, out, rows, WIDTH, EXACT)


def softmax_fused(x: torch.Tensor) -> torch.Tensor:
    """Softmax in one launch; fp32 inside, rounded once. On the CPU it is `torch.softmax`.

    Args:
        x: (..., width), contiguous, bf16 or fp32. A row of nothing but -inf gives NaN, as in torch.

    Raises:
        TypeError: an unsupported element type.
        ValueError: an unsupported shape, device or memory layout.
    """
    check_tensor("x", x)
    check_at_most("x", x, MAX_ROW_ELEMENTS)
    if x.device.type == "cpu":
        return torch.softmax(x, dim=-1)
    return _launch(x, torch.empty_like(x))


def _launch(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    width = x.shape[-1]
    rows = x.numel() // width
    blocks = plan_row_blocks(rows, width)
    with device_of(x):
        _softmax_fused_kernel[(blocks.programs,)](
            x,
            out,
            rows,
            WIDTH=width,
            BLOCK=blocks.block,
            ROWS=blocks.rows_per_program,
            EXACT=blocks.is_exact,
            num_warps=blocks.num_warps,
        )
    return out


softmax: dict[str, Callable[..., torch.Tensor]] = {"fused": softmax_fused, "unfused": softmax_unfused}
"""The variants by the names that perf tests use."""


def softmax_bytes(rows: int, width: int, itemsize: int) -> int:
    """Bytes that must move: x read, y written."""
    return 2 * rows * width * itemsize


def softmax_flops(rows: int, width: int) -> int:
    """Floating-point operations an element: compare, subtract, exp, add, divide."""
    return 5 * rows * width
