"""RMSNorm -> Linear: y = (x / sqrt(mean(x^2) + eps) * norm_weight) @ linear_weight^T, without a bias.

The norm's weight scales the columns of the linear weight, so it is folded into it once, ahead of time; what
is left of the norm is one factor a row, which commutes with the product:

    y = rsqrt(mean(x^2) + eps) * (x @ folded^T)        folded = linear_weight * norm_weight

The fused kernel is a matrix product that sums the squares of the very x tiles it multiplies and scales its
result by them: 1 launch, and no normalised copy of x in memory. For R rows, W inputs, N outputs of B bytes:
reads (R*W + N*W)*B and writes R*N*B bytes, 2*R*W*N operations. The unfused path also writes and reads R*W*B
bytes of normalised x, beside the temporaries of rms_norm_unfused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from kernels._checks import check_aligned, check_multiple, check_shape, check_tensor
from kernels._triton import describe, device_of, jit, tl
from kernels.rms_norm import rms_norm_reference, rms_norm_unfused


def rms_norm_linear_reference(
    x: torch.Tensor, norm_weight: torch.Tensor, linear_weight: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The truth in fp32.

    Args:
        x: (rows, width).
        norm_weight: (width,).
        linear_weight: (outputs, width).
        eps: added to the mean square.
    """
    return rms_norm_reference(x, norm_weight, eps) @ linear_weight.float().T


def rms_norm_linear_unfused(
    x: torch.Tensor, norm_weight: torch.Tensor, linear_weight: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The two modules one after the other, as model code runs them."""
    return F.linear(rms_norm_unfused(x, norm_weight, eps), linear_weight)


def fold_norm_weight(norm_weight: torch.Tensor, linear_weight: torch.Tensor) -> torch.Tensor:
    """The weight that `rms_norm_linear_fused` takes; made once when a model is loaded.

    Args:
        norm_weight: (width,).
        linear_weight: (outputs, width).

    Raises:
        TypeError: an argument of an unsupported or other element type.
        ValueError: an unsupported shape, device or memory layout.
    """
    check_tensor("linear_weight", linear_weight, dimensions=2)
    check_shape("norm_weight", norm_weight, (linear_weight.shape[1],), "linear_weight", linear_weight)
    return (linear_weight.float() * norm_weight.float()).to(linear_weight.dtype)


@dataclass(frozen=True, slots=True)
class Tiling:
    """How the matrix product is cut.

    Attributes:
        rows: rows of an output tile.
        outputs: columns of an output tile.
        width: elements of the inner dimension per step.
        stages: steps in flight between memory and the tensor cores.
        num_warps: warps of a program; four make the group that one tensor-core instruction needs.
        group: row tiles that neighbouring programs share, so that their weights stay in L2.
        slices: parts in which a tile is written; more need less shared memory at a time.
        is_flat: whether the loops over tiles and over steps are merged, so that the next tile loads while
            this one is written.
        is_specialized: whether some warps only load and others only multiply.
        programs_per_sm: programs on one multiprocessor.
    """

    rows: int
    outputs: int
    width: int
    stages: int
    num_warps: int
    group: int = 8
    slices: int = 1
    is_flat: bool = True
    is_specialized: bool = False
    programs_per_sm: int = 1


def choose_tiling(rows: int, outputs: int, dtype: torch.dtype) -> Tiling:
    """The tiling for a shape, from a table: equal shapes are cut equally, in every process."""
    if dtype == torch.float32:
        return Tiling(rows=64, outputs=64, width=32, stages=3, num_warps=8, is_flat=False)
    if rows * outputs <= 256 * 4096:
        return Tiling(rows=64, outputs=64, width=128, stages=5, num_warps=4, is_flat=False)
    return Tiling(rows=128, outputs=256, width=64, stages=3, num_warps=8, slices=2)


@jit
def _tile_origin(
    tile: tl.tensor,
    row_tiles: tl.tensor,
    output_tiles: tl.tensor,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    GROUP: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    # Consecutive tiles walk down GROUP row tiles before they step to the next column: what runs at one time
    # then covers a near-square patch, whose x and weight tiles fit in L2.
    group = tile // (GROUP * output_tiles)
    first = group * GROUP
    height = min(row_tiles - first, GROUP)
    within = tile - group * (GROUP * output_tiles)
    return (first + within % height) * ROWS, (within // height) * OUTPUTS


@jit
def _rms_norm_linear_fused_kernel(
    x_desc: tl.tensor,
    weight_desc: tl.tensor,
    out_desc: tl.tensor,
    rows: tl.tensor,
    outputs: tl.tensor,
    eps: tl.tensor,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    STEP: tl.constexpr,
    GROUP: tl.constexpr,
    SLICES: tl.constexpr,
    FLAT: tl.constexpr,
    SPECIALIZED: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    row_tiles = tl.cdiv(rows, ROWS)
    output_tiles = tl.cdiv(outputs, OUTPUTS)
    for tile in tl.range(
        tl.program_id(0),
        row_tiles * output_tiles,
        tl.num_programs(0),
        flatten=FLAT,
        warp_specialize=SPECIALIZED,
    ):
        row, output = _tile_origin(tile, row_tiles, output_tiles, ROWS, OUTPUTS, GROUP)
        product = tl.zeros((ROWS, OUTPUTS), tl.float32)
        squares = tl.zeros((ROWS, STEP // 8), tl.float32)
        for start in range(0, WIDTH, STEP):
            x = x_desc.load([row, start])
            weight = weight_desc.load([output, start])
            product = tl.dot(x, weight.T, product, input_precision=PRECISION)
            # After the product, which runs on the tensor cores meanwhile. A thread sums eight neighbours at
            # once: the running sums would otherwise take as many registers as the tile of x.
            x = x.to(tl.float32)
            squares += tl.sum(tl.reshape(x * x, (ROWS, STEP // 8, 8)), axis=2)
        rstd = tl.rsqrt(tl.sum(squares, axis=1) / WIDTH + eps)
        scaled = (product * rstd[:, None]).to(out_desc.dtype)
        if SLICES == 1:
            out_desc.store([row, output], scaled)
        else:
            halves = tl.permute(tl.reshape(scaled, (ROWS, 2, OUTPUTS // 2)), (0, 2, 1))
            left, right = tl.split(halves)
            out_desc.store([row, output], left)
            out_desc.store([row, output + OUTPUTS // 2], right)


def rms_norm_linear_fused(x: torch.Tensor, folded_weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """RMSNorm -> Linear in one launch; products and squares are summed in fp32, the result is rounded once.

    On the CPU it is the same formula in torch: `torch.nn.functional.linear`, then the factor of each row.

    Args:
        x: (rows, width), contiguous, bf16 or fp32; fp32 is multiplied in full precision, not in TF32.
        folded_weight: (outputs, width), from `fold_norm_weight`.
        eps: added to the mean square.

    Raises:
        TypeError: an argument of an unsupported or other element type.
        ValueError: an unsupported shape, device or memory layout.
    """
    check_tensor("x", x, dimensions=2)
    check_tensor("folded_weight", folded_weight, dimensions=2)
    rows, width = x.shape
    outputs = folded_weight.shape[0]
    check_shape("folded_weight", folded_weight, (outputs, width), "x", x)
    if x.device.type == "cpu":
        rstd = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
        return (F.linear(x, folded_weight) * rstd).to(x.dtype)
    sm_count = torch.cuda.get_device_properties(x.device).multi_processor_count
    out = torch.empty((rows, outputs), dtype=x.dtype, device=x.device)
    return _launch(x, folded_weight, eps, out, choose_tiling(rows, outputs, x.dtype), sm_count)


def _launch(
    x: torch.Tensor,
    folded_weight: torch.Tensor,
    eps: float,
    out: torch.Tensor,
    tiling: Tiling,
    sm_count: int,
) -> torch.Tensor:
    rows, width = x.shape
    outputs = folded_weight.shape[0]
    if out.numel() == 0:
        return out
    for name, tensor in (("x", x), ("folded_weight", folded_weight), ("the output", out)):
        check_multiple(name, tensor, 16 // tensor.element_size())
        check_aligned(name, tensor, 16)
    tiles = -(-rows // tiling.rows) * -(-outputs // tiling.outputs)
    with device_of(x):
        _rms_norm_linear_fused_kernel[(min(tiles, tiling.programs_per_sm * sm_count),)](
            describe(x, [tiling.rows, tiling.width]),
            describe(folded_weight, [tiling.outputs, tiling.width]),
            describe(out, [tiling.rows, tiling.outputs // tiling.slices]),
            rows,
            outputs,
            eps,
            WIDTH=width,
            ROWS=tiling.rows,
            OUTPUTS=tiling.outputs,
            STEP=tiling.width,
            GROUP=tiling.group,
            SLICES=tiling.slices,
            FLAT=tiling.is_flat,
            SPECIALIZED=tiling.is_specialized,
            PRECISION="ieee" if x.dtype == torch.float32 else "tf32",
            num_stages=tiling.stages,
            num_warps=tiling.num_warps,
        )
    return out


rms_norm_linear: dict[str, Callable[..., torch.Tensor]] = {
    "fused": rms_norm_linear_fused,
    "unfused": rms_norm_linear_unfused,
}
"""The variants by the names that perf tests use; the fused one takes the folded weight."""


def rms_norm_linear_bytes(rows: int, width: int, outputs: int, itemsize: int) -> int:
    """Bytes that must move: x and the weight read, y written."""
    return (rows * width + outputs * width + rows * outputs) * itemsize


def rms_norm_linear_flops(rows: int, width: int, outputs: int) -> int:
    """Floating-point operations of the product, and of the squares."""
    return 2 * rows * width * outputs + 2 * rows * width
