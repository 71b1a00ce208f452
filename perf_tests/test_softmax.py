"""Softmax over the attention scores of a llama-7b layer: (batch * heads * tokens, tokens)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.softmax import softmax, softmax_bytes, softmax_flops, softmax_reference
from perf_tests.closeness import assert_rounded, sample_rows
from perf_tests.llama import CONFIGURATIONS, HEADS, VARIANTS, Configuration


@pytest.mark.nsight
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_softmax(
    nsight: Callable[..., Any],
    variant: str,
    configuration: Configuration,
    dtype: torch.dtype,
    generator: torch.Generator,
    fresh_generator: torch.Generator,
    limit_work: Callable[..., None],
) -> None:
    rows, width = configuration.rows * HEADS, configuration.length
    limit_work(bytes_moved=softmax_bytes(rows, width, dtype.itemsize), flops=softmax_flops(rows, width))
    x = torch.randn(rows, width, generator=generator, device=generator.device, dtype=dtype)

    out = nsight(softmax[variant], x)

    checked = sample_rows(rows, fresh_generator)
    assert_rounded(out[checked], softmax_reference(x[checked]), scale=width)
