from __future__ import annotations

import pytest
import torch

from kernels import swiglu as operator
from tests.kernels.tensors import DTYPES, SHAPES, Random, assert_guarded, assert_interpreted, poisoned


# More shapes: several programs, with and without something to mask.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (5, 1500), (4, 1024)])
def test_the_kernel_equals_the_reference(shape: tuple[int, int], dtype: torch.dtype, draw: Random) -> None:
    gate, up = (draw.normal(*shape, dtype=dtype) for _ in range(2))

    out = operator._launch(gate, up, poisoned(*shape, dtype=dtype))

    assert_guarded(out)
    assert_interpreted(out, operator.swiglu_reference(gate, up))
