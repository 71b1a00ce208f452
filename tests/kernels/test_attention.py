from __future__ import annotations

import pytest
import torch

from kernels.attention import attention, attention_fused, attention_reference
from perf_tests.closeness import assert_spread
from perf_tests.test_attention import spread_attention
from tests.kernels.tensors import DTYPES, Random


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1, 8), (2, 3, 17, 16), (1, 2, 64, 40)])
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_each_variant_equals_the_reference(
    variant: str, shape: tuple[int, ...], dtype: torch.dtype, draw: Random
) -> None:
    q, k, v = (draw.normal(*shape, dtype=dtype) for _ in range(3))

    out = attention[variant](q, k, v)

    assert out.dtype == dtype
    for index in range(shape[0]):
        assert_spread(out[index], *spread_attention(q[index], k[index], v[index], score_roundings=2))


def test_the_reference_lets_no_token_see_a_later_one(draw: Random) -> None:
    q, k, v = (draw.normal(1, 1, 10, 8, dtype=torch.float32) for _ in range(3))
    changed_k, changed_v = k.clone(), v.clone()
    changed_k[..., 6:, :] += 1
    changed_v[..., 6:, :] -= 1

    before, after = attention_reference(q, k, v), attention_reference(q, changed_k, changed_v)

    assert torch.equal(before[..., :6, :], after[..., :6, :])
    assert not torch.allclose(before[..., 6:, :], after[..., 6:, :])


def test_a_value_of_another_shape_is_named() -> None:
    q = torch.ones(1, 1, 4, 8)
    with pytest.raises(ValueError, match=r"v has shape \(1, 1, 5, 8\), \(1, 1, 4, 8\) is needed to match q"):
        attention_fused(q, q, torch.ones(1, 1, 5, 8))
