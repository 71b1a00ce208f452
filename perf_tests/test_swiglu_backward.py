"""SwiGLU, backward, in the MLP of a llama-7b layer: (tokens, 11008)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.swiglu_backward import (
    swiglu_backward,
    swiglu_backward_bytes,
    swiglu_backward_flops,
    swiglu_backward_reference,
)
from perf_tests.closeness import assert_rounded, sample_rows
from perf_tests.llama import MLP_WIDTH, Configuration, case

CASES = [
    case("fused-b1x128", launches=1, faster_than="unfused", by=1.9),
    case("fused-b8x512", launches=1, faster_than="unfused", by=2.1),
    case("fused-b32x2048", launches=1, faster_than="unfused", by=2.1, min_share_of_limit=0.95),
    case("unfused-b1x128", launches=4),
    case("unfused-b8x512", launches=4),
    case("unfused-b32x2048", launches=4),
]


@pytest.mark.nsight
@pytest.mark.parametrize(("variant", "configuration"), CASES)
def test_swiglu_backward(
    nsight: Callable[..., Any],
    variant: str,
    configuration: Configuration,
    dtype: torch.dtype,
    generator: torch.Generator,
    fresh_generator: torch.Generator,
    declare_work: Callable[..., None],
) -> None:
    rows = configuration.rows
    declare_work(
        bytes=swiglu_backward_bytes(rows, MLP_WIDTH, dtype.itemsize), flops=swiglu_backward_flops(rows, MLP_WIDTH)
    )
    place = {"device": generator.device, "dtype": dtype}
    gradient, gate, up = (torch.randn(rows, MLP_WIDTH, generator=generator, **place) for _ in range(3))

    outs = nsight(swiglu_backward[variant], gradient, gate, up)

    checked = sample_rows(rows, fresh_generator)
    expected = swiglu_backward_reference(gradient[checked], gate[checked], up[checked])
    # Unfused rounds g * up or silu(gate), and then its product with a factor known in fp32: each relative to what
    # it is a factor of, so that both count in proportion to the result, however small or large that is.
    roundings = {"fused": 1, "unfused": 2}[variant]
    for out, truth in zip(outs, expected, strict=True):
        assert_rounded(out[checked], truth, roundings)
