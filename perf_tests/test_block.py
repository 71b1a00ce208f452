"""A training step of a llama-7b block: forward, backward, AdamW; 202 million parameters.

The largest size has a batch of 4, not of 32: a block keeps for its backward what its operators pass on, unfused
the attention's scores in three copies, which for a batch of 32 is more than 40 GB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.adamw import Settings, adamw
from kernels.block import BlockWeights, block, block_reference, block_step_bytes, block_step_flops
from kernels.rotary import Pair, make_tables
from perf_tests.closeness import relative_error
from perf_tests.llama import HEAD_WIDTH, HEADS, MEDIUM, MLP_WIDTH, SMALL, WIDTH, Configuration

SIZES = {"b1x128": SMALL, "b8x512": MEDIUM, "b4x2048": Configuration(4, 2048)}


def _case(name: str, **claims: Any) -> Any:
    variant, size = name.split("-")
    return pytest.param(variant, size, id=name, marks=pytest.mark.nsight(**claims))


# The ids are keys of stored baselines: they stay as they are, on every machine. The smallest size claims no number
# of launches: cuBLAS reduces three of its products in kernels of their own on an H200, and not on an H100.
CASES = [
    _case("fused-b1x128", faster_than="unfused", by=1.8),
    _case("fused-b8x512", launches=53, faster_than="unfused", by=1.55),
    _case("fused-b4x2048", launches=53, faster_than="unfused", by=2.1),
    _case("unfused-b1x128"),
    _case("unfused-b8x512", launches=196),
    _case("unfused-b4x2048", launches=196),
]

# Steps so small that 45 of them leave the weights, and with them the data that the kernels see, as they are.
SETTINGS = Settings(learning_rate=1e-7, weight_decay=0.0)


@pytest.mark.nsight
@pytest.mark.parametrize(("variant", "size"), CASES)
def test_block(
    nsight: Any,
    variant: str,
    size: str,
    dtype: torch.dtype,
    generator: torch.Generator,
    declare_work: Callable[..., None],
) -> None:
    batch, length = SIZES[size].batch, SIZES[size].length
    declare_work(
        bytes=block_step_bytes(batch * length, WIDTH, MLP_WIDTH, dtype.itemsize),
        flops=block_step_flops(batch, length, WIDTH, HEADS, MLP_WIDTH),
    )
    place = {"device": generator.device, "dtype": dtype}
    weights = BlockWeights(WIDTH, HEADS, MLP_WIDTH, generator=generator, dtype=dtype)
    x, upstream = (torch.randn(batch, length, WIDTH, generator=generator, **place) for _ in range(2))
    tables = make_tables(length, HEAD_WIDTH, generator.device, dtype)
    assert_block(variant, x[-1:], weights, tables, upstream[-1:])
    optimizer = adamw[variant](list(weights.parameters()), SETTINGS)
    x.requires_grad_()

    def step() -> None:
        with nsight.range("forward"):
            out = block[variant](x, weights, tables)
        with nsight.range("backward"):
            out.backward(upstream)
        with nsight.range("optimizer"):
            optimizer.step()
        optimizer.zero_grad()
        x.grad = None

    nsight(step)


def assert_block(
    variant: str, x: torch.Tensor, weights: BlockWeights, tables: Pair, upstream: torch.Tensor
) -> None:
    """Demand of one sequence that its result and every gradient lie as near to the truth as roundings let them.

    Some twenty intermediates are rounded to the type on the way of a gradient, each by 2^-8 at most in bf16 and by
    a third of that on average: up to 1 % in norm. A term that is missing or doubled is off by ten times that.
    """
    leaves = {**dict(weights.named_parameters()), "x": x.detach().clone().requires_grad_()}
    out = block[variant](leaves["x"], weights, tables)
    gradients = torch.autograd.grad(out, list(leaves.values()), upstream)
    truths = {**weights.make_float_copy(), "x": x.float().requires_grad_()}
    true_out = block_reference(truths["x"], truths, weights.heads, tables)
    true_gradients = torch.autograd.grad(true_out, list(truths.values()), upstream.float())
    assert relative_error(out, true_out) < 0.015
    for name, found, truth in zip(leaves, gradients, true_gradients, strict=True):
        error = relative_error(found, truth)
        assert error < 0.03, f"the gradient of {name} is off by {error:.1%} of its norm"
