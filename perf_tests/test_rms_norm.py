"""RMSNorm before each half of a llama-7b layer: (tokens, 4096)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.rms_norm import rms_norm, rms_norm_bytes, rms_norm_flops, rms_norm_reference
from perf_tests.closeness import assert_rounded, sample_rows
from perf_tests.llama import WIDTH, Configuration, case

# No share of the limit is claimed: the sessions in tests/data/sessions, judged by these marks, hold no work.
CASES = [
    case("fused-b1x128", launches=1, faster_than="unfused", by=9.5),
    case("fused-b8x512", launches=1, faster_than="unfused", by=10.5),
    case("fused-b32x2048", launches=1, faster_than="unfused", by=11),
    case("unfused-b1x128", launches=8),
    case("unfused-b8x512", launches=8),
    case("unfused-b32x2048", launches=8),
]


@pytest.mark.nsight
@pytest.mark.parametrize(("variant", "configuration"), CASES)
def test_rms_norm(
    nsight: Callable[..., Any],
    variant: str,
    configuration: Configuration,
    dtype: torch.dtype,
    generator: torch.Generator,
    fresh_generator: torch.Generator,
    declare_work: Callable[..., None],
) -> None:
    rows = configuration.rows
    declare_work(bytes=rms_norm_bytes(rows, WIDTH, dtype.itemsize), flops=rms_norm_flops(rows, WIDTH))
    place = {"device": generator.device, "dtype": dtype}
    x = torch.randn(rows, WIDTH, generator=generator, **place)
    weight = 1 + 0.1 * torch.randn(WIDTH, generator=generator, **place)

    out = nsight(rms_norm[variant], x, weight)

    checked = sample_rows(rows, fresh_generator)
    # Unfused rounds the normalised rows and then their product with the weight. Fused rounds once, but a
    # fusion that came apart computes the same, and is for the gate to find, not for this check.
    assert_rounded(out[checked], rms_norm_reference(x[checked], weight), roundings=2)
