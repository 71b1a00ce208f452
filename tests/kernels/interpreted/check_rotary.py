from __future__ import annotations

import pytest
import torch

from kernels import rotary as operator
from kernels.rotary import make_tables
from tests.kernels.tensors import DTYPES, Random, assert_guarded, poisoned

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 2), (2, 5, 4, 4, 8), (3, 7, 6, 2, 20)])
def test_the_kernel_equals_the_reference(
    shape: tuple[int, int, int, int, int], dtype: torch.dtype, draw: Random
) -> None:
    batch, length, query_heads, key_heads, width = shape
    q = draw.normal(batch, length, query_heads, width, dtype=dtype)
    k = draw.normal(batch, length, key_heads, width, dtype=dtype)
    tables = make_tables(length, width, CPU, dtype)
    outs = (poisoned(*q.shape, dtype=dtype), poisoned(*k.shape, dtype=dtype))

    operator._launch(q, k, *tables, outs)

    tolerance = {torch.bfloat16: 0.08, torch.float32: 1e-5}[dtype]
    for out, expected in zip(outs, operator.rotary_reference(q, k, *tables), strict=True):
        assert_guarded(out)
        torch.testing.assert_close(out.float(), expected, rtol=0, atol=tolerance)
