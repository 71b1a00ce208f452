"""RMSNorm -> Linear: y = (x / sqrt(mean(x^2) + eps) * norm_weight) @ linear_weight^T, without a bias.

The norm's weight scales the columns of the linear weight, so it is folded into it once, ahead of time; what
is left of the norm is one factor a row, which commutes with the product:

    y = rsqrt(mean(x^2) + eps) * (x @ folded^T)        folded = linear_weight * norm_weight

The fused path writes no normalised x. Of R rows, W inputs and N outputs of B bytes,

- many rows take 2 launches: one reads x for the fp32 factors of the rows, the other multiplies and scales its
  result by them. (2*R*W + N*W + R*N)*B bytes, R*W*B of them for the second reading of x; 2*R*W*N operations.
- few rows take 1 launch: each tile of the product also sums the squares of the x that it multiplies, as the
  diagonal of x @ x^T. (R*W + N*W + R*N)*B bytes. With square tiles that doubles the operations, but the tensor
  cores mostly wait for the weight here, and it costs less time than the launch that it saves.

The unfused path writes and reads R*W*B bytes of normalised x, beside the temporaries of rms_norm_unfused.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from kernels._checks import check_aligned, check_at_most, check_multiple, check_shape, check_tensor
from kernels._tiling import Tiling, choose_tiling, tile_origin
from kernels._triton import MAX_ROW_ELEMENTS, describe, device_of, jit, load_tile, plan_row_blocks, tl
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


@jit
def _rms_norm_linear_factors_kernel(
    x_ptr: tl.tensor,
    factor_ptr: tl.tensor,
    rows: tl.tensor,
    eps: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    EXACT: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    x = load_tile(x_ptr, row, tl.arange(0, BLOCK), rows, WIDTH, EXACT)
    factor = tl.rsqrt(tl.sum(x * x, axis=1) / WIDTH + eps)
    tl.store(factor_ptr + row, factor, mask=row < rows)


@jit
def _rms_norm_linear_fused_kernel(
    x_desc: tl.tensor,
    weight_desc: tl.tensor,
    out_desc: tl.tensor,
    factor_ptr: tl.tensor,
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
    HAS_FACTORS: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    row_tiles = tl.cdiv(rows, ROWS)
    output_tiles = tl.cdiv(outputs, OUTPUTS)
    for tile in tl.range(tl.program_id(0), row_tiles * output_tiles, tl.num_programs(0), flatten=FLAT):
        row, output = tile_origin(tile, row_tiles, output_tiles, ROWS, OUTPUTS, GROUP)
        product = tl.zeros((ROWS, OUTPUTS), tl.float32)
        gram = tl.zeros((ROWS, ROWS), tl.float32)
        for start in range(0, WIDTH, STEP):
            x = x_desc.load([row, start])
            weight = weight_desc.load([output, start])
            product = tl.dot(x, weight.T, product, input_precision=PRECISION)
            if not HAS_FACTORS:
                # Only matrix instructions may read the tile of x. If its elements are squared in registers, the
                # compiler (Triton 3.6 and 3.9) takes the tile for free as soon as it is in registers, and the
                # copy engine overwrites it while the product still reads it.
                gram = tl.dot(x, x.T, gram, input_precision=PRECISION)
        of_row = tl.arange(0, ROWS)
        if HAS_FACTORS:
            factor = tl.load(factor_ptr + row + of_row, mask=row + of_row < rows, other=0.0)
        else:
            squares = tl.sum(tl.where(of_row[:, None] == of_row[None, :], gram, 0.0), axis=1)
            factor = tl.rsqrt(squares / WIDTH + eps)
        scaled = (product * factor[:, None]).to(out_desc.dtype)
        if SLICES == 1:
            out_desc.store([row, output], scaled)
        else:
            halves = tl.permute(tl.reshape(scaled, (ROWS, 2, OUTPUTS // 2)), (0, 2, 1))
            left, right = tl.split(halves)
            out_desc.store([row, output], left)
            out_desc.store([row, output + OUTPUTS // 2], right)


def rms_norm_linear_fused(x: torch.Tensor, folded_weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """RMSNorm -> Linear without normalised rows in memory; summed in fp32, rounded once.

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
    check_at_most("x", x, MAX_ROW_ELEMENTS)
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
    if out.numel() == 0:
        return out
    for name, tensor in (("x", x), ("folded_weight", folded_weight), ("the output", out)):
        check_multiple(name, tensor, 16 // tensor.element_size())
        check_aligned(name, tensor, 16)
    factors = _launch_factors(x, eps) if tiling.has_factors else None
    return _launch_product(x, folded_weight, factors, eps, out, tiling, sm_count)


def _launch_factors(x: torch.Tensor, eps: float) -> torch.Tensor:
    rows, width = x.shape
    factors = torch.empty(rows, dtype=torch.float32, device=x.device)
    blocks = plan_row_blocks(rows, width)
    with device_of(x):
        _rms_norm_linear_factors_kernel[(blocks.programs,)](
            x,
            factors,
            rows,
            eps,
            WIDTH=width,
            BLOCK=blocks.block,
            ROWS=blocks.rows_per_program,
            EXACT=blocks.is_exact,
            num_warps=blocks.num_warps,
        )
    return factors


def _launch_product(
    x: torch.Tensor,
    folded_weight: torch.Tensor,
    factors: torch.Tensor | None,
    eps: float,
    out: torch.Tensor,
    tiling: Tiling,
    sm_count: int,
) -> torch.Tensor:
    rows, outputs = out.shape
    tiles = -(-rows // tiling.rows) * -(-outputs // tiling.outputs)
    with device_of(x):
        _rms_norm_linear_fused_kernel[(min(tiles, sm_count),)](
            describe(x, [tiling.rows, tiling.width]),
            describe(folded_weight, [tiling.outputs, tiling.width]),
            describe(out, [tiling.rows, tiling.outputs // tiling.slices]),
            factors,
            rows,
            outputs,
            eps,
            WIDTH=x.shape[1],
            ROWS=tiling.rows,
            OUTPUTS=tiling.outputs,
            STEP=tiling.width,
            GROUP=tiling.group,
            SLICES=tiling.slices,
            FLAT=tiling.is_flat,
            HAS_FACTORS=factors is not None,
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
