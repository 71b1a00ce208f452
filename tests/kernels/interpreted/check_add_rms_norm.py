from __future__ import annotations

import pytest
import torch

from kernels import add_rms_norm as operator
from tests.kernels.tensors import DTYPES, SHAPES, Random, assert_guarded, assert_interpreted, poisoned


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_equals_the_reference(shape: tuple[int, int], dtype: torch.dtype, draw: Random) -> None:
    x, residual = (draw.normal(*shape, dtype=dtype) for _ in range(2))
    weight = draw.gain(shape[-1], dtype)

    outs = operator._launch(
        x, residual, weight, 1e-5, (poisoned(*shape, dtype=dtype), poisoned(*shape, dtype=dtype))
    )

    for out, expected in zip(outs, operator.add_rms_norm_reference(x, residual, weight), strict=True):
        assert_guarded(out)
        # The interpreter rounds the sum in another direction; the norm and its factor start from that.
        assert_interpreted(out, expected, roundings=3)
