"""Causal attention of a llama-7b layer: (batch, 32 heads, tokens, 128)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.attention import attention, attention_bytes, attention_flops, attention_reference
from perf_tests.closeness import assert_product
from perf_tests.llama import HEAD_WIDTH, HEADS, Configuration, case

CASES = [
    case("fused-b1x128", launches=1, faster_than="unfused", by=3),
    case("fused-b8x512", launches=1, faster_than="unfused", by=13),
    case("fused-b32x2048", launches=1, faster_than="unfused", by=23),
    case("unfused-b1x128", launches=9),
    case("unfused-b8x512", launches=9),
    case("unfused-b32x2048", launches=32),
]


@pytest.mark.nsight
@pytest.mark.parametrize(("variant", "configuration"), CASES)
def test_attention(
    nsight: Callable[..., Any],
    variant: str,
    configuration: Configuration,
    dtype: torch.dtype,
    generator: torch.Generator,
    fresh_generator: torch.Generator,
    declare_work: Callable[..., None],
) -> None:
    size = (configuration.batch, HEADS, configuration.length, HEAD_WIDTH)
    declare_work(bytes=attention_bytes(*size, dtype.itemsize), flops=attention_flops(*size))
    place = {"device": generator.device, "dtype": dtype}
    q, k, v = (torch.randn(size, generator=generator, **place) for _ in range(3))

    out = nsight(attention[variant], q, k, v)

    sequence = int(torch.randint(size[0], (), generator=fresh_generator, device=generator.device))
    expected = attention_reference(q[sequence], k[sequence], v[sequence])
    # Probabilities and result are rounded, unfused also the scores before and after scaling, which count by
    # their size: most weight is on those of 1 to 3, single rows hang on one of 5.
    roundings = {"fused": 2, "unfused": 16}[variant]
    assert_product(out[sequence], expected, roundings)
