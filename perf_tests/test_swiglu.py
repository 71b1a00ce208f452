"""SwiGLU in the MLP of a llama-7b layer: (tokens, 11008)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.swiglu import swiglu, swiglu_bytes, swiglu_flops, swiglu_reference
from perf_tests.closeness import assert_rounded, sample_rows
from perf_tests.llama import CONFIGURATIONS, MLP_WIDTH, VARIANTS, Configuration


@pytest.mark.nsight
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_swiglu(
    nsight: Callable[..., Any],
    variant: str,
    configuration: Configuration,
    dtype: torch.dtype,
    generator: torch.Generator,
    fresh_generator: torch.Generator,
    limit_work: Callable[..., None],
) -> None:
    rows = configuration.rows
    limit_work(bytes_moved=swiglu_bytes(rows, MLP_WIDTH, dtype.itemsize), flops=swiglu_flops(rows, MLP_WIDTH))
    place = {"device": generator.device, "dtype": dtype}
    gate = torch.randn(rows, MLP_WIDTH, generator=generator, **place)
    up = torch.randn(rows, MLP_WIDTH, generator=generator, **place)

    out = nsight(swiglu[variant], gate, up)

    checked = sample_rows(rows, fresh_generator)
    # Unfused rounds silu(gate) and then its product with up.
    roundings = {"fused": 1, "unfused": 2}[variant]
    assert_rounded(out[checked], swiglu_reference(gate[checked], up[checked]), roundings)
