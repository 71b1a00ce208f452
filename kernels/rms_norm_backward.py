"""RMSNorm, backward: from g = dL/dy the gradients of x and of the weight, for y = x * r * weight.

    r = 1 / sqrt(mean(x^2) + eps)
    dx = r * (g*weight - x * r^2 * mean(g*weight*x))        dweight = sum over the rows of g * x * r

For R rows of W elements of B bytes: reads 2*R*W + W and writes R*W + W elements, 3*R*W*B bytes for many rows.
The fused path is 2 launches: one walks over the rows and keeps a sum of dweight a program, one adds these up
(2*P*W*4 bytes for P programs). r is computed again, not kept from the forward pass: x is read anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from kernels._checks import check_at_most, check_same, check_shape, check_tensor
from kernels._triton import device_of, jit, load_tile, store_tile, tl

MAX_WIDTH = 8192
"""Widest row: the kernel keeps two rows, the weight and a sum of gradients in registers."""

Pair = tuple[torch.Tensor, torch.Tensor]


def rms_norm_backward_reference(
    gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5
) -> Pair:
    """The truth in fp32: (dx, dweight).

    Args:
        gradient: of the result of RMSNorm, like x.
        x: (rows, width).
        weight: (width,).
        eps: added to the mean square.
    """
    x, scaled = x.float(), gradient.float() * weight.float()
    rstd = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    x_gradient = rstd * (scaled - x * rstd.square() * (scaled * x).mean(-1, keepdim=True))
    return x_gradient, (gradient.float() * x * rstd).sum(0)


def rms_norm_backward_unfused(
    gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5
) -> Pair:
    """The formula in eager torch, statistics in fp32: (dx, dweight)."""
    normed, upstream = x.float(), gradient.float()
    rstd = torch.rsqrt(normed.pow(2).mean(-1, keepdim=True) + eps)
    normed = normed * rstd
    scaled = upstream * weight.float()
    x_gradient = rstd * (scaled - normed * (scaled * normed).mean(-1, keepdim=True))
    return x_gradient.to(x.dtype), (upstream * normed).sum(0).to(weight.dtype)


@jit
def _rms_norm_backward_fused_kernel(
    gradient_ptr: tl.tensor,
    x_ptr: tl.tensor,
    weight_ptr: tl.tensor,
    x_gradient_ptr: tl.tensor,
    parts_ptr: tl.tensor,
    rows: tl.tensor,
    eps: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
) -> None:
    column = tl.arange(0, BLOCK)
    weight = load_tile(weight_ptr, tl.zeros((1,), tl.int64), column, 1, WIDTH, WIDTH == BLOCK)
    part = tl.zeros((1, BLOCK), tl.float32)
    # Of STAGES rows all but one are on their way while that one is worked on.
    for index in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        row = tl.zeros((1,), tl.int64) + index
        x = load_tile(x_ptr, row, column, rows, WIDTH, WIDTH == BLOCK)
        gradient = load_tile(gradient_ptr, row, column, rows, WIDTH, WIDTH == BLOCK)
        scaled = gradient * weight
        # Both sums from x itself, so that neither waits for the other.
        squares, products = tl.sum(x * x, axis=1), tl.sum(scaled * x, axis=1)
        rstd = tl.rsqrt(squares / WIDTH + eps)[:, None]
        normed = x * rstd
        projection = rstd * (products / WIDTH)[:, None]
        x_gradient = rstd * (scaled - normed * projection)
        store_tile(x_gradient_ptr, row, column, x_gradient, rows, WIDTH, WIDTH == BLOCK)
        part += gradient * normed
    own = tl.zeros((1,), tl.int64) + tl.program_id(0)
    store_tile(parts_ptr, own, column, part, tl.num_programs(0), WIDTH, WIDTH == BLOCK)


@jit
def _rms_norm_backward_weight_fused_kernel(
    parts_ptr: tl.tensor,
    weight_gradient_ptr: tl.tensor,
    parts: tl.tensor,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, parts, ROWS):
        row = (start + tl.arange(0, ROWS)).to(tl.int64)
        total += load_tile(parts_ptr, row, column, parts, WIDTH, False)  # noqa: FBT003 (Triton: by position)
    weight_gradient = tl.sum(total, axis=0).to(weight_gradient_ptr.dtype.element_ty)
    tl.store(weight_gradient_ptr + column, weight_gradient, mask=column < WIDTH)


def rms_norm_backward_fused(
    gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5
) -> Pair:
    """(dx, dweight) in two launches that read and write each element of x and its gradients once.

    On the CPU it is autograd's backward of `torch.nn.functional.rms_norm`.

    Args:
        gradient: of the result of RMSNorm, like x.
        x: (rows, width), contiguous, bf16 or fp32.
        weight: (width,), of the type and on the device of x.
        eps: added to the mean square.

    Raises:
        TypeError: an argument of an unsupported or other element type.
        ValueError: an unsupported shape, device or memory layout.
    """
    check_tensor("x", x, dimensions=2)
    check_same("gradient", gradient, "x", x)
    check_shape("weight", weight, (x.shape[-1],), "x", x)
    check_at_most("x", x, MAX_WIDTH)
    if x.device.type == "cpu":
        leaves = (x.detach().requires_grad_(), weight.detach().requires_grad_())
        with torch.enable_grad():
            out = F.rms_norm(leaves[0], (x.shape[-1],), leaves[1], eps)
        x_gradient, weight_gradient = torch.autograd.grad(out, leaves, gradient)
        return x_gradient, weight_gradient
    sm_count = torch.cuda.get_device_properties(x.device).multi_processor_count
    return _launch(
        gradient, x, weight, eps, (torch.empty_like(x), torch.empty_like(weight)), plan(sm_count, *x.shape)
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """How the two kernels are launched.

    Attributes:
        programs: that walk over the rows, each with a sum of its own; more than fit at a time only make more sums.
        num_warps: warps of each.
        stages: rows in flight in each.
        summed_columns: columns that a program of the second kernel adds up.
        summed_parts: sums that it loads at a time.
    """

    programs: int
    num_warps: int
    stages: int = 3
    summed_columns: int = 32
    summed_parts: int = 64


def plan(sm_count: int, rows: int, width: int) -> Plan:
    """Two programs on a multiprocessor, as many as their registers let in, of 512 elements a warp."""
    block = 1 << (width - 1).bit_length()
    return Plan(programs=min(rows, 2 * sm_count), num_warps=min(16, max(1, block // 512)))


def _launch(
    gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float, outs: Pair, plan: Plan
) -> Pair:
    rows, width = x.shape
    if rows == 0:
        return outs[0], outs[1].zero_()
    parts = torch.empty((plan.programs, width), dtype=torch.float32, device=x.device)
    with device_of(x):
        _rms_norm_backward_fused_kernel[(plan.programs,)](
            gradient,
            x,
            weight,
            outs[0],
            parts,
            rows,
            eps,
            WIDTH=width,
            BLOCK=1 << (width - 1).bit_length(),
            STAGES=plan.stages,
            num_warps=plan.num_warps,
        )
        _rms_norm_backward_weight_fused_kernel[(-(-width // plan.summed_columns),)](
            parts,
            outs[1],
            plan.programs,
            WIDTH=width,
            COLUMNS=plan.summed_columns,
            ROWS=plan.summed_parts,
            num_warps=4,
        )
    return outs


rms_norm_backward: dict[str, Callable[..., Pair]] = {
    "fused": rms_norm_backward_fused,
    "unfused": rms_norm_backward_unfused,
}
"""The variants by the names that perf tests use."""


def rms_norm_backward_bytes(rows: int, width: int, itemsize: int) -> int:
    """Bytes that must move: x, the gradient and the weight read, both gradients written."""
    return (3 * rows * width + 2 * width) * itemsize


def rms_norm_backward_flops(rows: int, width: int) -> int:
    """Floating-point operations an element: 2 for r, 3 for the projection, 3 for dx, 2 for dweight."""
    return 10 * rows * width
