from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from kernels.bias_gelu import bias_gelu, bias_gelu_fused, bias_gelu_reference
from perf_tests.closeness import assert_rounded
from tests.kernels.tensors import DTYPES, SHAPES, Random


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_each_variant_equals_the_reference(
    variant: str, shape: tuple[int, int], dtype: torch.dtype, draw: Random
) -> None:
    x, bias = draw.normal(*shape, dtype=dtype), draw.gain(shape[-1], dtype)

    out = bias_gelu[variant](x, bias)

    # On the CPU both variants round x + bias first. GELU passes a relative error of its argument on times
    # z * gelu'(z) / gelu(z): at most 1.3 for z > 0, but like z^2 below, where only the size is checked.
    is_checked = x.float() + bias.float() > 0
    expected = bias_gelu_reference(x, bias)
    assert_rounded(out[is_checked], expected[is_checked], roundings=3)
    torch.testing.assert_close(out.float(), expected, rtol=0.02, atol=0.01)


def test_the_reference_is_the_tanh_form_in_double_precision(draw: Random) -> None:
    x, bias = draw.normal(9, 17, dtype=torch.float32) * 4, draw.gain(17, torch.float32)

    expected = F.gelu(x.double() + bias.double(), approximate="tanh").float()

    torch.testing.assert_close(bias_gelu_reference(x, bias), expected, rtol=1e-5, atol=1e-6)


def test_a_bias_of_another_width_is_named() -> None:
    with pytest.raises(ValueError, match=r"bias has shape \(9,\), \(8,\) is needed to go with x"):
        bias_gelu_fused(torch.ones(2, 8), torch.ones(9))
