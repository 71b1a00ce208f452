from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from kernels.swiglu_backward import swiglu_backward, swiglu_backward_reference
from perf_tests.closeness import assert_rounded
from tests.kernels.tensors import DTYPES, SHAPES, Random


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_each_variant_equals_the_reference(
    variant: str, shape: tuple[int, int], dtype: torch.dtype, draw: Random
) -> None:
    gradient, gate, up = (draw.normal(*shape, dtype=dtype) for _ in range(3))
    kept = [tensor.clone() for tensor in (gradient, gate, up)]

    outs = swiglu_backward[variant](gradient, gate, up)

    # On the CPU both variants round a product, then what it is a factor of.
    for out, expected in zip(outs, swiglu_backward_reference(gradient, gate, up), strict=True):
        assert out.dtype == dtype
        assert_rounded(out, expected, roundings=2)
    assert all(torch.equal(one, other) for one, other in zip((gradient, gate, up), kept, strict=True))


def test_the_reference_is_the_gradient_that_autograd_finds_in_double_precision(draw: Random) -> None:
    gradient, gate, up = (draw.normal(9, 14, dtype=torch.float64).double() * 3 for _ in range(3))
    leaves = (gate.requires_grad_(), up.requires_grad_())

    expected = torch.autograd.grad(F.silu(gate) * up, leaves, gradient)

    found = swiglu_backward_reference(gradient, gate.detach(), up.detach())
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)
