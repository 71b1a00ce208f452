from __future__ import annotations

import pytest
import torch

from kernels import rms_norm as operator
from tests.kernels.tensors import DTYPES, SHAPES, Random, assert_guarded, assert_interpreted, poisoned


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_equals_the_reference(shape: tuple[int, int], dtype: torch.dtype, draw: Random) -> None:
    x, weight = draw.normal(*shape, dtype=dtype), draw.gain(shape[-1], dtype)

    out = operator._launch(x, weight, 1e-3, poisoned(*shape, dtype=dtype))

    assert_guarded(out)
    assert_interpreted(out, operator.rms_norm_reference(x, weight, 1e-3))
