"""How a matrix product (rows, width) @ (outputs, width)^T is cut in tiles."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels._triton import jit, tl


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
        has_factors: whether a launch ahead computes the row factors; if not, each tile sums its own squares.
    """

    rows: int
    outputs: int
    width: int
    stages: int
    num_warps: int
    group: int = 8
    slices: int = 1
    is_flat: bool = True
    has_factors: bool = True


def choose_tiling(rows: int, outputs: int, dtype: torch.dtype) -> Tiling:
    """The tiling for a shape, from a table: equal shapes are cut equally, in every process.

    The bf16 ones are the fastest of `benchmarks.rms_norm_linear_sweep` on an H200; the fp32 one is not tuned.
    """
    if dtype == torch.float32:
        return Tiling(rows=64, outputs=64, width=32, stages=3, num_warps=8, is_flat=False)
    if rows * outputs <= 256 * 4096:
        return Tiling(rows=64, outputs=64, width=128, stages=6, num_warps=4, is_flat=False, has_factors=False)
    if rows * outputs < 1024 * 4096:
        return Tiling(rows=128, outputs=128, width=64, stages=5, num_warps=4)
    return Tiling(rows=128, outputs=256, width=64, stages=3, num_warps=8, slices=2)


@jit
def tile_origin(
    tile: tl.tensor,
    row_tiles: tl.tensor,
    output_tiles: tl.tensor,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    GROUP: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """First row and first output of a tile, by its number."""
    # Consecutive tiles walk down GROUP row tiles before they step to the next column: what runs at one time
    # then covers a near-square patch, whose x and weight tiles fit in L2.
    group = tile // (GROUP * output_tiles)
    first = group * GROUP
    height = min(row_tiles - first, GROUP)
    within = tile - group * (GROUP * output_tiles)
    return (first + within % height) * ROWS, (within // height) * OUTPUTS
