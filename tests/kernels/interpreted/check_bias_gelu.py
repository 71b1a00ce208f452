from __future__ import annotations

import pytest
import torch

from kernels import bias_gelu as operator
from tests.kernels.tensors import DTYPES, SHAPES, Random, assert_guarded, assert_interpreted, poisoned


# More shapes: several programs, with and without something to mask.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (5, 1500), (4, 1024), (2, 3000)])
def test_the_kernel_equals_the_reference(shape: tuple[int, int], dtype: torch.dtype, draw: Random) -> None:
    x, bias = draw.normal(*shape, dtype=dtype), draw.gain(shape[-1], dtype)

    out = operator._launch(x, bias, poisoned(*shape, dtype=dtype))

    assert_guarded(out)
    assert_interpreted(out, operator.bias_gelu_reference(x, bias))
