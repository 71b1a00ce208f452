from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from kernels.rms_norm import rms_norm, rms_norm_bytes, rms_norm_fused, rms_norm_reference
from perf_tests.closeness import assert_rounded
from tests.kernels.tensors import DTYPES, SHAPES, Random


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (2, 3, 24)])
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_each_variant_equals_the_reference(
    variant: str, shape: tuple[int, ...], dtype: torch.dtype, draw: Random
) -> None:
    x, weight = draw.normal(*shape, dtype=dtype), draw.gain(shape[-1], dtype)

    out = rms_norm[variant](x, weight, 1e-3)

    assert out.dtype == dtype
    assert_rounded(out, rms_norm_reference(x, weight, 1e-3), roundings={"fused": 1, "unfused": 2}[variant])


def test_the_reference_is_the_formula_in_double_precision(draw: Random) -> None:
    x, weight = draw.normal(7, 33, dtype=torch.float32), draw.gain(33, torch.float32)

    expected = F.rms_norm(x.double(), (33,), weight.double(), 0.5)

    torch.testing.assert_close(rms_norm_reference(x, weight, 0.5).double(), expected, rtol=1e-6, atol=1e-6)


def test_no_rows_give_no_rows() -> None:
    assert rms_norm_fused(torch.empty(0, 16), torch.ones(16)).shape == (0, 16)


def test_bytes_count_x_the_weight_and_the_result_once() -> None:
    assert rms_norm_bytes(rows=10, width=8, itemsize=2) == 2 * (10 * 8 + 8 + 10 * 8)


@pytest.mark.parametrize(
    ("x", "weight", "message"),
    [
        (torch.ones(2, 8), torch.ones(7), r"weight has shape \(7,\), \(8,\) is needed to go with x"),
        (torch.ones(2, 0), torch.ones(0), r"x has shape \(2, 0\), rows of at least one element"),
        (torch.ones(8, 2).T, torch.ones(8), r"x is not contiguous .*pass x.contiguous\(\)"),
        (torch.ones(2, 8, device="meta"), torch.ones(8), "x is on meta, a CUDA device or the CPU is needed"),
        (torch.ones(1, 32769), torch.ones(32769), "x has rows of 32769 elements, at most 32768"),
    ],
)
def test_an_impossible_argument_is_named(x: torch.Tensor, weight: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rms_norm_fused(x, weight)


@pytest.mark.parametrize(
    ("x", "weight", "message"),
    [
        (torch.ones(2, 8, dtype=torch.float64), torch.ones(8), "x is torch.float64, torch.bfloat16 or"),
        (torch.ones(2, 8), torch.ones(8).bfloat16(), "weight is torch.bfloat16, torch.float32 is needed"),
        ([1.0], torch.ones(8), "x is list, a torch.Tensor is needed"),
    ],
)
def test_a_wrong_type_is_named(x: torch.Tensor, weight: torch.Tensor, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        rms_norm_fused(x, weight)
