"""Kernels that can do an exact share of additional work in the launch of the sound one.

Every kernel takes the share, or its number of iterations, as a run-time argument, so that the code is the same to
the last instruction. The argument is passed as 2 n + 3: Triton compiles another variant for 1 and for multiples
of 16.
"""

from __future__ import annotations

import torch

from kernels._triton import device_of, jit, tl

BLOCK = 4096
WIDTH = 4096
TILE_M, TILE_N, TILE_K = 128, 256, 64
MOST_PER_MILLE = 50


def encode(number: int) -> int:
    """An argument that Triton specialises for no value of."""
    return 2 * number + 3


def extra_blocks(blocks: int, per_mille: int = MOST_PER_MILLE) -> int:
    """Additional blocks for a share of additional work."""
    return -(-blocks * per_mille // 1000)


@jit
def _find_block(turn: tl.tensor, blocks: tl.tensor, extra: tl.tensor) -> tl.tensor:
    # The additional blocks are numbered from `blocks` on: memory that nothing else in the round touches.
    program = tl.program_id(0)
    return tl.where(turn == 0, program, blocks + program * extra // 1000).to(tl.int64)


@jit
def _validate_copy_kernel(
    x_ptr: tl.tensor, out_ptr: tl.tensor, blocks: tl.tensor, code: tl.tensor, BLOCK: tl.constexpr
) -> None:
    extra = (code - 3) // 2
    # Evenly spread over the grid, so that no multiprocessor is left with all of them.
    turns = tl.where(tl.program_id(0) * extra % 1000 < extra, 2, 1)
    for turn in range(turns):
        index = _find_block(turn, blocks, extra) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + index, tl.load(x_ptr + index))


@jit
def _validate_triad_kernel(
    x_ptr: tl.tensor, y_ptr: tl.tensor, out_ptr: tl.tensor, blocks: tl.tensor, code: tl.tensor, BLOCK: tl.constexpr
) -> None:
    extra = (code - 3) // 2
    turns = tl.where(tl.program_id(0) * extra % 1000 < extra, 2, 1)
    for turn in range(turns):
        index = _find_block(turn, blocks, extra) * BLOCK + tl.arange(0, BLOCK)
        x, y = tl.load(x_ptr + index).to(tl.float32), tl.load(y_ptr + index).to(tl.float32)
        tl.store(out_ptr + index, (x + 3.0 * y).to(tl.bfloat16))


@jit
def _validate_norm_kernel(
    x_ptr: tl.tensor, out_ptr: tl.tensor, blocks: tl.tensor, code: tl.tensor, BLOCK: tl.constexpr
) -> None:
    extra = (code - 3) // 2
    turns = tl.where(tl.program_id(0) * extra % 1000 < extra, 2, 1)
    for turn in range(turns):
        index = _find_block(turn, blocks, extra) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + index).to(tl.float32)
        tl.store(out_ptr + index, (x * tl.rsqrt(tl.sum(x * x, axis=0) / BLOCK + 1e-5)).to(tl.bfloat16))


@jit
def _validate_reduce_kernel(
    x_ptr: tl.tensor, out_ptr: tl.tensor, blocks: tl.tensor, code: tl.tensor, BLOCK: tl.constexpr
) -> None:
    extra = (code - 3) // 2
    turns = tl.where(tl.program_id(0) * extra % 1000 < extra, 2, 1)
    for turn in range(turns):
        block = _find_block(turn, blocks, extra)
        x = tl.load(x_ptr + block * BLOCK + tl.arange(0, BLOCK)).to(tl.float32)
        tl.store(out_ptr + block, tl.sum(x, axis=0))


@jit
def _validate_fma_kernel(out_ptr: tl.tensor, code: tl.tensor, STEPS: tl.constexpr, BLOCK: tl.constexpr) -> None:
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(out_ptr + index)
    for _ in range((code - 3) // 2):
        for _ in tl.static_range(STEPS):
            x = x * 0.999 + 0.001
    tl.store(out_ptr + index, x)


@jit
def _validate_dot_kernel(
    a_ptr: tl.tensor,
    b_ptr: tl.tensor,
    out_ptr: tl.tensor,
    code: tl.tensor,
    a_stride: tl.tensor,
    b_stride: tl.tensor,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
) -> None:
    row = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    column = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    depth = tl.arange(0, TILE_K)
    a = a_ptr + row[:, None] * a_stride + depth[None, :]
    b = b_ptr + depth[:, None] * b_stride + column[None, :]
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for _ in range((code - 3) // 2):
        total = tl.dot(tl.load(a), tl.load(b), total)
        a += TILE_K
        b += TILE_K * b_stride
    tl.store(out_ptr + row[:, None] * b_stride + column[None, :], total.to(tl.bfloat16))


def copy(x: torch.Tensor, out: torch.Tensor, blocks: int, per_mille: int) -> None:
    """Copies `blocks` blocks of 4096 elements and `per_mille` thousandths more."""
    with device_of(x):
        _validate_copy_kernel[(blocks,)](x, out, blocks, encode(per_mille), BLOCK=BLOCK, num_warps=8)


def triad(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor, blocks: int, per_mille: int) -> None:
    """Stores x + 3 y in out, as `copy`."""
    with device_of(x):
        _validate_triad_kernel[(blocks,)](x, y, out, blocks, encode(per_mille), BLOCK=BLOCK, num_warps=8)


def norm(x: torch.Tensor, out: torch.Tensor, blocks: int, per_mille: int) -> None:
    """Root-mean-square norm of rows of 4096 elements, as `copy`."""
    with device_of(x):
        _validate_norm_kernel[(blocks,)](x, out, blocks, encode(per_mille), BLOCK=WIDTH, num_warps=8)


def reduce(x: torch.Tensor, out: torch.Tensor, blocks: int, per_mille: int) -> None:
    """Sums of rows of 4096 elements, as `copy`."""
    with device_of(x):
        _validate_reduce_kernel[(blocks,)](x, out, blocks, encode(per_mille), BLOCK=WIDTH, num_warps=8)


def fma(out: torch.Tensor, iterations: int, steps: int) -> None:
    """A chain of `iterations` * `steps` dependent multiply-adds on every element, 1024 elements a program."""
    with device_of(out):
        _validate_fma_kernel[(out.numel() // 1024,)](out, encode(iterations), STEPS=steps, BLOCK=1024, num_warps=4)


def dot(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, k_tiles: int) -> None:
    """The product of the first 64 * k_tiles columns of a and rows of b."""
    rows, columns = out.shape
    with device_of(a):
        _validate_dot_kernel[(rows // TILE_M, columns // TILE_N)](
            a,
            b,
            out,
            encode(k_tiles),
            a.stride(0),
            b.stride(0),
            TILE_M=TILE_M,
            TILE_N=TILE_N,
            TILE_K=TILE_K,
            num_warps=8,
            num_stages=3,
        )
