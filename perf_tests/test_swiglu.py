"""SwiGLU in the MLP of a llama-7b layer: (tokens, 11008)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.swiglu import swiglu, swiglu_bytes, swiglu_flops, swiglu_reference
from perf_tests.closeness import assert_rounded, sample_rows
from perf_tests.llama import MLP_WIDTH, Configuration, case

CASES = [
    case("fused-b1x128", launches=1, faster_than="unfused", by=1.45),
    case("fused-b8x512", launches=1, faster_than="unfused", by=1.6),
    case("fused-b32x2048", launches=1, faster_than="unfused", by=1.65, min_share_of_limit=0.95),
    case("unfused-b1x128", launches=2),
    case("unfused-b8x512", launches=2),
    case("unfused-b32x2048", launches=2),
]


@pytest.mark.nsight
@pytest.mark.parametrize(("variant", "configuration"), CASES)
def test_swiglu(
    nsight: Callable[..., Any],
    variant: str,
    configuration: Configuration,
    dtype: torch.dtype,
    generator: torch.Generator,
    fresh_generator: torch.Generator,
    declare_work: Callable[..., None],
) -> None:
    rows = configuration.rows
    declare_work(bytes=swiglu_bytes(rows, MLP_WIDTH, dtype.itemsize), flops=swiglu_flops(rows, MLP_WIDTH))
    place = {"device": generator.device, "dtype": dtype}
    gate = torch.randn(rows, MLP_WIDTH, generator=generator, **place)
    up = torch.randn(rows, MLP_WIDTH, generator=generator, **place)

    out = nsight(swiglu[variant], gate, up)

    checked = sample_rows(rows, fresh_generator)
    # Unfused rounds silu(gate) and then its product with up.
    roundings = {"fused": 1, "unfused": 2}[variant]
    assert_rounded(out[checked], swiglu_reference(gate[checked], up[checked]), roundings)
