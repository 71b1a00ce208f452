from __future__ import annotations

import pytest
import torch

from kernels import softmax as operator
from tests.kernels.tensors import DTYPES, SHAPES, Random, assert_guarded, assert_interpreted, poisoned


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_equals_the_reference(shape: tuple[int, int], dtype: torch.dtype, draw: Random) -> None:
    # Far below zero: a masked element that counted as zero would carry all the weight.
    x = (draw.normal(*shape, dtype=torch.float32) * 5 - 50).to(dtype)

    out = operator._launch(x, poisoned(*shape, dtype=dtype))

    assert_guarded(out)
    assert_interpreted(out, operator.softmax_reference(x))
