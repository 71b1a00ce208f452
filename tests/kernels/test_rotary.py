from __future__ import annotations

import pytest
import torch

from kernels.rotary import make_tables, rotary, rotary_fused, rotary_reference
from tests.kernels.tensors import DTYPES, Random

CPU = torch.device("cpu")
SHAPES = [(1, 1, 1, 1, 2), (2, 5, 4, 4, 8), (3, 7, 6, 2, 20)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_each_variant_equals_the_reference(
    variant: str, shape: tuple[int, int, int, int, int], dtype: torch.dtype, draw: Random
) -> None:
    batch, length, query_heads, key_heads, width = shape
    q = draw.normal(batch, length, query_heads, width, dtype=dtype)
    k = draw.normal(batch, length, key_heads, width, dtype=dtype)
    tables = make_tables(length, width, CPU, dtype)

    outs = rotary[variant](q, k, *tables)

    # Each product may round, and their difference may cancel: absolute, for elements of a few units.
    tolerance = {torch.bfloat16: 0.08, torch.float32: 1e-5}[dtype]
    for out, expected in zip(outs, rotary_reference(q, k, *tables), strict=True):
        assert out.dtype == dtype
        torch.testing.assert_close(out.float(), expected, rtol=0, atol=tolerance)


def test_the_reference_turns_pairs_as_complex_numbers(draw: Random) -> None:
    q = draw.normal(2, 6, 3, 10, dtype=torch.float32)
    cos, sin = make_tables(6, 10, CPU, torch.float32)

    turned, _ = rotary_reference(q, q, cos, sin)

    pairs = torch.complex(q[..., :5], q[..., 5:]) * torch.complex(cos[:, :5], sin[:, :5])[:, None, :]
    torch.testing.assert_close(turned, torch.cat((pairs.real, pairs.imag), dim=-1))


def test_an_odd_head_width_is_named() -> None:
    with pytest.raises(ValueError, match="q has heads of 3 elements, an even number is needed"):
        rotary_fused(torch.ones(1, 2, 1, 3), torch.ones(1, 2, 1, 3), torch.ones(2, 3), torch.ones(2, 3))


def test_a_table_of_another_length_is_named() -> None:
    with pytest.raises(ValueError, match=r"cos has shape \(3, 4\), \(2, 4\) is needed to go with q"):
        rotary_fused(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 4), torch.ones(3, 4), torch.ones(2, 4))
