"""A small block with its truth, for the tests on the CPU and in Triton's interpreter."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.block import BlockWeights, Pair, block_reference
from kernels.rotary import make_tables

HEADS = 2


@dataclass(frozen=True)
class BlockCase:
    """Inputs of a block, and what must come out of it.

    Attributes:
        x: (batch, length, width), a leaf.
        weights: parameters.
        tables: of the rotary embedding.
        upstream: gradient of the result.
        out: the true result.
        gradients: the true gradients, by the parameter's name, "x" for that of x.
    """

    x: torch.Tensor
    weights: BlockWeights
    tables: Pair
    upstream: torch.Tensor
    out: torch.Tensor
    gradients: dict[str, torch.Tensor]


def make_block_case(size: tuple[int, int, int], mlp_width: int, dtype: torch.dtype, seed: int) -> BlockCase:
    """Random inputs for (batch, length, width), and the truth about them."""
    generator = torch.Generator().manual_seed(seed)
    weights = BlockWeights(size[2], HEADS, mlp_width, generator=generator, dtype=dtype)
    x, upstream = (torch.randn(size, generator=generator).to(dtype) for _ in range(2))
    tables = make_tables(size[1], size[2] // HEADS, x.device, dtype)
    leaves = {**weights.make_float_copy(), "x": x.float().requires_grad_()}
    out = block_reference(leaves["x"], leaves, HEADS, tables)
    gradients = torch.autograd.grad(out, list(leaves.values()), upstream.float())
    return BlockCase(
        x.requires_grad_(), weights, tables, upstream, out.detach(), dict(zip(leaves, gradients, strict=True))
    )


def find_gradients(case: BlockCase, out: torch.Tensor) -> dict[str, torch.Tensor]:
    """The gradients of the case's leaves through `out`, by name."""
    leaves = {**dict(case.weights.named_parameters()), "x": case.x}
    return dict(zip(leaves, torch.autograd.grad(out, list(leaves.values()), case.upstream), strict=True))
