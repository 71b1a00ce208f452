"""Bias + GELU at the width of a llama-7b MLP: (tokens, 11008)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.bias_gelu import bias_gelu, bias_gelu_bytes, bias_gelu_flops, bias_gelu_reference
from perf_tests.closeness import assert_product, sample_rows
from perf_tests.llama import CONFIGURATIONS, MLP_WIDTH, VARIANTS, Configuration


@pytest.mark.nsight
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_bias_gelu(
    nsight: Callable[..., Any],
    variant: str,
    configuration: Configuration,
    dtype: torch.dtype,
    generator: torch.Generator,
    fresh_generator: torch.Generator,
    limit_work: Callable[..., None],
) -> None:
    rows = configuration.rows
    limit_work(bytes_moved=bias_gelu_bytes(rows, MLP_WIDTH, dtype.itemsize), flops=bias_gelu_flops(rows, MLP_WIDTH))
    place = {"device": generator.device, "dtype": dtype}
    x = torch.randn(rows, MLP_WIDTH, generator=generator, **place)
    bias = torch.randn(MLP_WIDTH, generator=generator, **place)

    out = nsight(bias_gelu[variant], x, bias)

    checked = sample_rows(rows, fresh_generator)
    # Unfused rounds x + bias, which GELU passes on up to 1.13 times, and then its result.
    roundings = {"fused": 1, "unfused": 3}[variant]
    assert_product(out[checked], bias_gelu_reference(x[checked], bias), roundings)
