from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from kernels.rms_norm_backward import (
    rms_norm_backward,
    rms_norm_backward_fused,
    rms_norm_backward_reference,
)
from perf_tests.closeness import assert_product
from tests.kernels.tensors import DTYPES, SHAPES, Random


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_each_variant_equals_the_reference(
    variant: str, shape: tuple[int, int], dtype: torch.dtype, draw: Random
) -> None:
    gradient, x = (draw.normal(*shape, dtype=dtype) for _ in range(2))
    weight = draw.gain(shape[-1], dtype)

    outs = rms_norm_backward[variant](gradient, x, weight, 1e-3)

    # On the CPU autograd rounds between its steps.
    for out, expected in zip(outs, rms_norm_backward_reference(gradient, x, weight, 1e-3), strict=True):
        assert_product(out, expected, roundings=6)


def test_the_reference_is_the_gradient_that_autograd_finds_in_double_precision(draw: Random) -> None:
    gradient, x = (draw.normal(11, 20, dtype=torch.float64).double() for _ in range(2))
    weight = draw.gain(20, torch.float64)
    leaves = (x.requires_grad_(), weight.requires_grad_())

    expected = torch.autograd.grad(F.rms_norm(x, (20,), weight, 0.1), leaves, gradient)

    found = rms_norm_backward_reference(gradient.detach(), x.detach(), weight.detach(), 0.1)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)


def test_a_gradient_of_another_shape_is_named() -> None:
    with pytest.raises(ValueError, match=r"gradient has shape \(3, 8\), \(2, 8\) is needed to match x"):
        rms_norm_backward_fused(torch.ones(3, 8), torch.ones(2, 8), torch.ones(8))
