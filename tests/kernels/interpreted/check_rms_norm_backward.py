from __future__ import annotations

import pytest
import torch

from kernels import rms_norm_backward as operator
from perf_tests.closeness import assert_product
from tests.kernels.tensors import DTYPES, SHAPES, Random, assert_guarded, poisoned


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("programs", [3, 1000])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernels_equal_the_reference(
    shape: tuple[int, int], programs: int, dtype: torch.dtype, draw: Random
) -> None:
    gradient, x = (draw.normal(*shape, dtype=dtype) for _ in range(2))
    weight = draw.gain(shape[-1], dtype)
    outs = (poisoned(*shape, dtype=dtype), poisoned(shape[-1], dtype=dtype))

    operator._launch(gradient, x, weight, 1e-3, outs, operator.Plan(min(programs, shape[0]), num_warps=4))

    expected = operator.rms_norm_backward_reference(gradient, x, weight, 1e-3)
    for out, truth in zip(outs, expected, strict=True):
        assert_guarded(out)
        # One rounding, by cutting off: with few elements all errors may be as large as they can, a whole unit.
        assert_product(out, truth, roundings=12)


def test_no_rows_give_a_weight_gradient_of_zero() -> None:
    empty, weight = torch.empty(0, 8), torch.ones(8)

    _, weight_gradient = operator._launch(
        empty, empty, weight, 1e-5, (empty, poisoned(8, dtype=torch.float32)), operator.Plan(4, num_warps=4)
    )

    assert torch.equal(weight_gradient, torch.zeros(8))
