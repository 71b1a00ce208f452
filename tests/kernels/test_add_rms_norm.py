from __future__ import annotations

import pytest
import torch

from kernels.add_rms_norm import add_rms_norm, add_rms_norm_fused, add_rms_norm_reference
from perf_tests.closeness import assert_rounded
from tests.kernels.tensors import DTYPES, SHAPES, Random


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_each_variant_equals_the_reference(
    variant: str, shape: tuple[int, int], dtype: torch.dtype, draw: Random
) -> None:
    x, residual = draw.normal(*shape, dtype=dtype), draw.normal(*shape, dtype=dtype)
    weight = draw.gain(shape[-1], dtype)

    out, total = add_rms_norm[variant](x, residual, weight)

    expected, expected_total = add_rms_norm_reference(x, residual, weight)
    assert_rounded(total, expected_total, roundings=0)
    assert_rounded(out, expected, roundings={"fused": 1, "unfused": 2}[variant])


def test_a_norm_of_the_unrounded_sum_is_not_the_reference(draw: Random) -> None:
    """The sum is rounded to bf16 before it is normalised: what the next layer reads is what is normalised."""
    x, residual = (draw.normal(64, 64, dtype=torch.bfloat16) for _ in range(2))

    _, total = add_rms_norm_reference(x, residual, torch.ones(64, dtype=torch.bfloat16))

    assert torch.equal(total, (x.float() + residual.float()).bfloat16().float())
    assert not torch.equal(total, x.float() + residual.float())


def test_a_residual_of_another_shape_is_named() -> None:
    with pytest.raises(ValueError, match=r"residual has shape \(3, 8\), \(2, 8\) is needed to match x"):
        add_rms_norm_fused(torch.ones(2, 8), torch.ones(3, 8), torch.ones(8))


def test_a_residual_of_another_type_is_named() -> None:
    with pytest.raises(TypeError, match=r"residual is torch\.bfloat16, torch\.float32 is needed"):
        add_rms_norm_fused(torch.ones(2, 8), torch.ones(2, 8).bfloat16(), torch.ones(8))
