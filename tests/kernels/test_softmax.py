from __future__ import annotations

import pytest
import torch

from kernels.softmax import softmax, softmax_fused, softmax_reference
from perf_tests.closeness import assert_rounded
from tests.kernels.tensors import DTYPES, SHAPES, Random


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_each_variant_equals_the_reference(
    variant: str, shape: tuple[int, int], dtype: torch.dtype, draw: Random
) -> None:
    x = draw.normal(*shape, dtype=dtype) * 5

    assert_rounded(softmax[variant](x), softmax_reference(x))


def test_the_reference_is_torch_in_double_precision(draw: Random) -> None:
    x = draw.normal(6, 50, dtype=torch.float32) * 20

    expected = torch.softmax(x.double(), dim=-1).float()

    torch.testing.assert_close(softmax_reference(x), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_large_values_do_not_overflow(variant: str) -> None:
    out = softmax[variant](torch.tensor([[1e30, 1e30, -1e30]]))

    assert torch.equal(out, torch.tensor([[0.5, 0.5, 0.0]]))


def test_too_wide_a_row_is_named() -> None:
    with pytest.raises(ValueError, match="x has rows of 32769 elements, at most 32768 are supported"):
        softmax_fused(torch.ones(1, 32769))
