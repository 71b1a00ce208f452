"""AdamW over parts of llama-7b: its 65 norms, the attention of a layer, a whole layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.adamw import adamw, adamw_bytes, adamw_flops, adamw_reference
from perf_tests.llama import MLP_WIDTH, WIDTH

NORMS = [(WIDTH,)] * 65
ATTENTION = [(WIDTH, WIDTH)] * 4
LAYER = [*ATTENTION, (MLP_WIDTH, WIDTH), (MLP_WIDTH, WIDTH), (WIDTH, MLP_WIDTH), (WIDTH,), (WIDTH,)]

SHAPES = {"norms": NORMS, "attention": ATTENTION, "layer": LAYER}


def _case(name: str, **claims: Any) -> Any:
    variant, parameters = name.split("-")
    return pytest.param(variant, SHAPES[parameters], id=name, marks=pytest.mark.nsight(**claims))


# The ids are keys of stored baselines: they stay as they are, on every machine.
CASES = [
    _case("fused-norms", launches=3, faster_than="unfused", by=1.9),
    _case("fused-attention", launches=5, faster_than="unfused", by=2.5),
    _case("fused-layer", launches=11, faster_than="unfused", by=2.4),
    _case("unfused-norms", launches=12),
    _case("unfused-attention", launches=32),
    _case("unfused-layer", launches=80),
]


@pytest.mark.nsight
@pytest.mark.parametrize(("variant", "shapes"), CASES)
def test_adamw(
    nsight: Callable[..., Any],
    variant: str,
    shapes: list[tuple[int, ...]],
    generator: torch.Generator,
    declare_work: Callable[..., None],
) -> None:
    count = sum(torch.Size(shape).numel() for shape in shapes)
    declare_work(bytes=adamw_bytes(count, 4), flops=adamw_flops(count))
    place = {"generator": generator, "device": generator.device}
    parameters = [torch.nn.Parameter(torch.randn(shape, **place)) for shape in shapes]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, **place)
    starts = [parameter.detach().flatten()[:WIDTH].clone() for parameter in parameters]
    optimizer = adamw[variant](parameters)

    # Each step moves the parameters on: the first one is checked, and it makes the moments.
    optimizer.step()
    for parameter, start in zip(parameters, starts, strict=True):
        assert parameter.grad is not None
        expected = adamw_reference(start, [parameter.grad.flatten()[:WIDTH]])
        torch.testing.assert_close(parameter.detach().flatten()[:WIDTH], expected, rtol=1e-5, atol=1e-6)

    nsight(optimizer.step)
