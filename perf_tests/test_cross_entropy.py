"""Cross entropy over the vocabulary of llama-7b, with its gradient: (tokens, 32000)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.cross_entropy import cross_entropy, cross_entropy_bytes, cross_entropy_flops, cross_entropy_reference
from perf_tests.closeness import assert_rounded, sample_rows
from perf_tests.llama import VOCABULARY, Configuration, case

CASES = [
    case("fused-b1x128", launches=1, faster_than="unfused", by=6.3),
    case("fused-b8x512", launches=1, faster_than="unfused", by=11),
    case("fused-b32x2048", launches=1, faster_than="unfused", by=11.5, min_share_of_limit=0.9),
    case("unfused-b1x128", launches=9),
    case("unfused-b8x512", launches=9),
    case("unfused-b32x2048", launches=18),
]


@pytest.mark.nsight
@pytest.mark.parametrize(("variant", "configuration"), CASES)
def test_cross_entropy(
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
        bytes=cross_entropy_bytes(rows, VOCABULARY, dtype.itemsize),
        flops=cross_entropy_flops(rows, VOCABULARY),
    )
    device = generator.device
    logits = torch.randn(rows, VOCABULARY, generator=generator, device=device, dtype=dtype)
    targets = torch.randint(VOCABULARY, (rows,), generator=generator, device=device)
    checked = sample_rows(rows, fresh_generator)[:512]
    expected = cross_entropy_reference(logits[checked], targets[checked], rows)

    # The fused variant overwrites the logits: only its first call sees them, and that is the one to check.
    losses, gradient = cross_entropy[variant](logits, targets)
    torch.testing.assert_close(losses[checked], expected[0], rtol=1e-4, atol=1e-4)
    assert_rounded(gradient[checked], expected[1], scale=rows * VOCABULARY)
    del losses, gradient, expected

    nsight(cross_entropy[variant], logits, targets)
