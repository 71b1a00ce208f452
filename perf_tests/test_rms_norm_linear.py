"""RMSNorm -> Linear, as before the output projection's width: (tokens, 4096) to (tokens, 4096)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.rms_norm_linear import (
    fold_norm_weight,
    rms_norm_linear,
    rms_norm_linear_bytes,
    rms_norm_linear_flops,
    rms_norm_linear_reference,
)
from perf_tests.closeness import assert_product, sample_rows
from perf_tests.llama import WIDTH, Configuration, case

CASES = [
    case("fused-b1x128", launches=1, faster_than="unfused", by=2.1),
    case("fused-b8x512", launches=2, faster_than="unfused", by=2),
    case("fused-b32x2048", launches=2, faster_than="unfused", by=2),
    case("unfused-b1x128", launches=9),
    case("unfused-b8x512", launches=9),
    case("unfused-b32x2048", launches=9),
]


@pytest.mark.nsight
@pytest.mark.parametrize(("variant", "configuration"), CASES)
def test_rms_norm_linear(
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
        bytes=rms_norm_linear_bytes(rows, WIDTH, WIDTH, dtype.itemsize),
        flops=rms_norm_linear_flops(rows, WIDTH, WIDTH),
    )
    place = {"device": generator.device, "dtype": dtype}
    x = torch.randn(rows, WIDTH, generator=generator, **place)
    norm_weight = 1 + 0.1 * torch.randn(WIDTH, generator=generator, **place)
    linear_weight = torch.randn(WIDTH, WIDTH, generator=generator, **place) / WIDTH**0.5
    # A model folds once, when it is loaded: no part of what a forward pass costs.
    weights = {
        "fused": (fold_norm_weight(norm_weight, linear_weight),),
        "unfused": (norm_weight, linear_weight),
    }

    out = nsight(rms_norm_linear[variant], x, *weights[variant])

    checked = sample_rows(rows, fresh_generator)
    # Fused rounds the folded weight and the result; unfused the normalised rows, their scaled product, the
    # result.
    roundings = {"fused": 2, "unfused": 3}[variant]
    expected = rms_norm_linear_reference(x[checked], norm_weight, linear_weight)
    assert_product(out[checked], expected, roundings)
