"""Softmax over the attention scores of a llama-7b layer: (sequences * heads * tokens, tokens).

Of the batch of 32 eight sequences are scored: the fp32 copies of the unfused variant would take 60 GB for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.softmax import softmax, softmax_bytes, softmax_flops, softmax_reference
from perf_tests.closeness import assert_rounded, sample_rows
from perf_tests.llama import HEADS, Configuration, case

CASES = [
    case("fused-b1x128", launches=1, faster_than="unfused", by=8),
    case("fused-b8x512", launches=1, faster_than="unfused", by=12),
    case("fused-b32x2048", launches=1, faster_than="unfused", by=12.5, min_share_of_limit=0.9),
    case("unfused-b1x128", launches=7),
    case("unfused-b8x512", launches=7),
    # Over 2 GB torch halves what it works on: twice the launches.
    case("unfused-b32x2048", launches=14),
]


@pytest.mark.nsight
@pytest.mark.parametrize(("variant", "configuration"), CASES)
def test_softmax(
    nsight: Callable[..., Any],
    variant: str,
    configuration: Configuration,
    dtype: torch.dtype,
    generator: torch.Generator,
    fresh_generator: torch.Generator,
    declare_work: Callable[..., None],
) -> None:
    rows, width = min(configuration.batch, 8) * configuration.length * HEADS, configuration.length
    declare_work(bytes=softmax_bytes(rows, width, dtype.itemsize), flops=softmax_flops(rows, width))
    x = torch.randn(rows, width, generator=generator, device=generator.device, dtype=dtype)

    out = nsight(softmax[variant], x)

    checked = sample_rows(rows, fresh_generator)
    assert_rounded(out[checked], softmax_reference(x[checked]), scale=width)
