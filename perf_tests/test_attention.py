"""Causal attention of a llama-7b layer: (batch, 32 heads, tokens, 128)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.attention import attention, attention_bytes, attention_flops, attention_reference
from perf_tests.closeness import assert_product
from perf_tests.llama import CONFIGURATIONS, HEAD_WIDTH, HEADS, VARIANTS, Configuration


@pytest.mark.nsight
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_attention(
    nsight: Callable[..., Any],
    variant: str,
    configuration: Configuration,
    dtype: torch.dtype,
    generator: torch.Generator,
    fresh_generator: torch.Generator,
    limit_work: Callable[..., None],
) -> None:
    size = (configuration.batch, HEADS, configuration.length, HEAD_WIDTH)
    limit_work(bytes_moved=attention_bytes(*size, dtype.itemsize), flops=attention_flops(*size))
    place = {"device": generator.device, "dtype": dtype}
    q, k, v = (torch.randn(size, generator=generator, **place) for _ in range(3))

    out = nsight(attention[variant], q, k, v)

    sequence = int(torch.randint(size[0], (), generator=fresh_generator, device=generator.device))
    expected = attention_reference(q[sequence], k[sequence], v[sequence])
    # Probabilities and result are rounded, unfused also the scores before and after scaling, which count by
    # their size: most weight is on those of 1 to 3, single rows hang on one of 5.
    roundings = {"fused": 2, "unfused": 16}[variant]
    assert_product(out[sequence], expected, roundings)
