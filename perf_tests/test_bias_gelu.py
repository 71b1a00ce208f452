"""Bias + GELU at the width of a llama-7b MLP: (tokens, 11008)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.bias_gelu import bias_gelu, bias_gelu_bytes, bias_gelu_flops, bias_gelu_reference
from perf_tests.closeness import assert_rounded, sample_rows
from perf_tests.llama import MLP_WIDTH, Configuration, case

CASES = [
    case("fused-b1x128", launches=1, faster_than="unfused", by=2.4),
    case("fused-b8x512", launches=1, faster_than="unfused", by=2.8),
    case("fused-b32x2048", launches=1, faster_than="unfused", by=2.8, min_share_of_limit=0.95),
    case("unfused-b1x128", launches=2),
    case("unfused-b8x512", launches=2),
    case("unfused-b32x2048", launches=2),
]


@pytest.mark.nsight
@pytest.mark.parametrize(("variant", "configuration"), CASES)
def test_bias_gelu(
    nsight: Callable[..., Any],
    variant: str,
    configuration: Configuration,
    dtype: torch.dtype,
    generator: torch.Generator,
    fresh_generator: torch.Generator,
    declare_work: Callable[..., None],
) -> None:
    rows = configuration.rows
    declare_work(bytes=bias_gelu_bytes(rows, MLP_WIDTH, dtype.itemsize), flops=bias_gelu_flops(rows, MLP_WIDTH))
    place = {"device": generator.device, "dtype": dtype}
    x = torch.randn(rows, MLP_WIDTH, generator=generator, **place)
    bias = torch.randn(MLP_WIDTH, generator=generator, **place)

    out = nsight(bias_gelu[variant], x, bias)

    checked = sample_rows(rows, fresh_generator)
    # Unfused rounds x + bias, which GELU passes on up to 1.13 times, and then its result.
    passed_on = {"fused": 0.0, "unfused": 1.13 * (x[checked].float() + bias.float()).abs()}[variant]
    assert_rounded(out[checked], bias_gelu_reference(x[checked], bias), passed_on=passed_on)
