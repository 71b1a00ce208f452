"""The other design of RMSNorm -> Linear, to compare with: 2 launches, the row factors computed ahead.

What the sums of squares cost inside the product is the difference of the fused kernel to `product` here.
"""

from __future__ import annotations

import torch

from kernels._triton import describe, device_of, jit, load_tile, plan_row_blocks, tl
from kernels.rms_norm_linear import Tiling, _tile_origin


@jit
def _row_factor_kernel(
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
def _scaled_product_kernel(
    x_desc: tl.tensor,
    weight_desc: tl.tensor,
    out_desc: tl.tensor,
    factor_ptr: tl.tensor,
    rows: tl.tensor,
    outputs: tl.tensor,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    STEP: tl.constexpr,
    GROUP: tl.constexpr,
    SLICES: tl.constexpr,
    FLAT: tl.constexpr,
    SPECIALIZED: tl.constexpr,
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
        for start in range(0, WIDTH, STEP):
            x = x_desc.load([row, start])
            weight = weight_desc.load([output, start])
            product = tl.dot(x, weight.T, product)
        of_row = row + tl.arange(0, ROWS)
        factor = tl.load(factor_ptr + of_row, mask=of_row < rows, other=0.0)
        scaled = (product * factor[:, None]).to(out_desc.dtype)
        if SLICES == 1:
            out_desc.store([row, output], scaled)
        else:
            halves = tl.permute(tl.reshape(scaled, (ROWS, 2, OUTPUTS // 2)), (0, 2, 1))
            left, right = tl.split(halves)
            out_desc.store([row, output], left)
            out_desc.store([row, output + OUTPUTS // 2], right)


def compute_row_factors(x: torch.Tensor, eps: float) -> torch.Tensor:
    """The factor 1 / sqrt(mean(x^2) + eps) of each row, fp32, in one launch."""
    rows, width = x.shape
    factors = torch.empty(rows, dtype=torch.float32, device=x.device)
    blocks = plan_row_blocks(rows, width)
    with device_of(x):
        _row_factor_kernel[(blocks.programs,)](
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


def multiply_scaled(
    x: torch.Tensor, weight: torch.Tensor, factors: torch.Tensor, tiling: Tiling, sm_count: int
) -> torch.Tensor:
    """(x @ weight^T) * factors[:, None] in one launch."""
    rows, width = x.shape
    outputs = weight.shape[0]
    out = torch.empty((rows, outputs), dtype=x.dtype, device=x.device)
    tiles = -(-rows // tiling.rows) * -(-outputs // tiling.outputs)
    with device_of(x):
        _scaled_product_kernel[(min(tiles, tiling.programs_per_sm * sm_count),)](
            describe(x, [tiling.rows, tiling.width]),
            describe(weight, [tiling.outputs, tiling.width]),
            describe(out, [tiling.rows, tiling.outputs // tiling.slices]),
            factors,
            rows,
            outputs,
            WIDTH=width,
            ROWS=tiling.rows,
            OUTPUTS=tiling.outputs,
            STEP=tiling.width,
            GROUP=tiling.group,
            SLICES=tiling.slices,
            FLAT=tiling.is_flat,
            SPECIALIZED=tiling.is_specialized,
            num_stages=tiling.stages,
            num_warps=tiling.num_warps,
        )
    return out
