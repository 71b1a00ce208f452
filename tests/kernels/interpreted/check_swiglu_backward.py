from __future__ import annotations

import pytest
import torch

from kernels import swiglu_backward as operator
from tests.kernels.tensors import DTYPES, SHAPES, Random, assert_guarded, assert_interpreted, poisoned


# More shapes: several programs, with and without something to mask.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (5, 1500), (4, 1024)])
def test_the_kernel_equals_the_reference(shape: tuple[int, int], dtype: torch.dtype, draw: Random) -> None:
    gradient, gate, up = (draw.normal(*shape, dtype=dtype) for _ in range(3))

    outs = operator._launch(gradient, gate, up, (poisoned(*shape, dtype=dtype), poisoned(*shape, dtype=dtype)))

    for out, expected in zip(outs, operator.swiglu_backward_reference(gradient, gate, up), strict=True):
        assert_guarded(out)
        # Where the slope of silu is near zero (gate near -1.28) an absolute error remains.
        assert_interpreted(out, expected)
