"""RMSNorm before each half of a llama-7b layer: (tokens, 4096)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.rms_norm import rms_norm, rms_norm_bytes, rms_norm_flops, rms_norm_reference
from perf_tests.closeness import assert_rounded, sample_rows
from perf_tests.llama import CONFIGURATIONS, VARIANTS, WIDTH, Configuration


@pytest.mark.nsight
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_rms_norm(
    nsight: Callable[..., Any],
    variant: str,
    configuration: Configuration,
    dtype: torch.dtype,
    generator: torch.Generator,
    fresh_generator: torch.Generator,
    limit_work: Callable[..., None],
) -> None:
    rows = configuration.rows
    limit_work(bytes_moved=rms_norm_bytes(rows, WIDTH, dtype.itemsize), flops=rms_norm_flops(rows, WIDTH))
    place = {"device": generator.device, "dtype": dtype}
    x = torch.randn(rows, WIDTH, generator=generator, **place)
    weight = 1 + 0.1 * torch.randn(WIDTH, generator=generator, **place)

    out = nsight(rms_norm[variant], x, weight)

    checked = sample_rows(rows, fresh_generator)
    # Unfused rounds the normalised rows and then their product with the weight. Fused rounds once, but a
    # fusion that came apart computes the same, and is for the gate to find, not for this check.
    assert_rounded(out[checked], rms_norm_reference(x[checked], weight), roundings=2)
