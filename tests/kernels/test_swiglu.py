from __future__ import annotations

import pytest
import torch

from kernels.swiglu import swiglu, swiglu_fused, swiglu_reference
from perf_tests.closeness import assert_rounded
from tests.kernels.tensors import DTYPES, SHAPES, Random


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_each_variant_equals_the_reference(
    variant: str, shape: tuple[int, int], dtype: torch.dtype, draw: Random
) -> None:
    gate, up = draw.normal(*shape, dtype=dtype), draw.normal(*shape, dtype=dtype)
    kept = gate.clone()

    out = swiglu[variant](gate, up)

    # On the CPU both variants round silu(gate) before the product.
    assert_rounded(out, swiglu_reference(gate, up), roundings=2)
    assert torch.equal(gate, kept), "the input was overwritten"


def test_a_gate_far_below_zero_closes() -> None:
    gate, up = torch.tensor([[-200.0, 200.0]]), torch.tensor([[3.0, 3.0]])

    assert torch.equal(swiglu_reference(gate, up), torch.tensor([[-0.0, 600.0]]))
    assert torch.equal(swiglu_fused(gate, up), torch.tensor([[-0.0, 600.0]]))


def test_an_up_of_another_shape_is_named() -> None:
    with pytest.raises(ValueError, match=r"up has shape \(2, 9\), \(2, 8\) is needed to match gate"):
        swiglu_fused(torch.ones(2, 8), torch.ones(2, 9))
