"""The checks that perf tests rest on let roundings pass and catch small systematic errors."""

from __future__ import annotations

import pytest
import torch

from kernels.attention import attention, attention_reference
from perf_tests.closeness import assert_product, assert_rounded, assert_spread, sample_rows
from perf_tests.test_attention import spread_attention
from tests.kernels.tensors import DTYPES, Random

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("check", [assert_rounded, assert_product])
def test_one_rounding_passes_and_one_percent_does_not(check, dtype: torch.dtype, draw: Random) -> None:  # type: ignore[no-untyped-def]
    truth = draw.normal(500, 40, dtype=torch.float32)

    check(truth.to(dtype), truth, 1)
    with pytest.raises(AssertionError):
        check((truth * 1.01).to(dtype), truth, 1)


@pytest.mark.parametrize("check", [assert_rounded, assert_product])
def test_one_wrong_element_in_many_is_caught(check, draw: Random) -> None:  # type: ignore[no-untyped-def]
    truth = draw.normal(500, 40, dtype=torch.float32)
    result = truth.bfloat16()
    result[417, 13] += 0.25

    with pytest.raises(AssertionError):
        check(result, truth, 2)


@pytest.mark.parametrize("check", [assert_rounded, assert_product])
def test_an_element_that_is_not_a_number_is_caught(check, draw: Random) -> None:  # type: ignore[no-untyped-def]
    truth = draw.normal(20, 8, dtype=torch.float32)
    result = truth.clone()
    result[3, 3] = float("nan")

    with pytest.raises(AssertionError, match="not finite"):
        check(result, truth)


def test_small_values_are_compared_at_their_scale(draw: Random) -> None:
    truth = draw.normal(20, 8, dtype=torch.float32) * 1e-6

    assert_rounded(truth * 1.01, truth)
    with pytest.raises(AssertionError):
        assert_rounded(truth * 1.01, truth, scale=1e6)


def test_all_rows_are_checked_up_to_4096_and_beyond_a_sample_with_the_first_and_the_last(draw: Random) -> None:
    assert torch.equal(sample_rows(4096, draw.generator), torch.arange(4096))

    sample = sample_rows(65536, draw.generator)
    assert 0 in sample
    assert 65535 in sample
    assert len(sample) == 512
    assert not torch.equal(sample, sample_rows(65536, draw.generator))


def test_two_roundings_of_a_product_pass_however_far_its_values_spread(draw: Random) -> None:
    # As in swiglu's backward: products of three normal values reach twenty times the typical one.
    factors = [draw.normal(4000, 1000, dtype=torch.bfloat16) for _ in range(3)]
    truth = factors[0].float() * factors[1].float() * factors[2].float()

    assert_rounded(factors[0] * factors[1] * factors[2], truth, 2)


def test_what_an_intermediate_lost_is_allowed_where_it_is_said_to_be_passed_on(draw: Random) -> None:
    x, y = draw.normal(500, 40, dtype=torch.bfloat16) + 8, draw.normal(500, 40, dtype=torch.bfloat16) - 8
    z = draw.normal(500, 40, dtype=torch.bfloat16)
    truth = x.float() + y.float() + z.float()
    first_sum = (x.float() + z.float()).abs()

    assert_rounded((x + z) + y, truth, passed_on=first_sum)
    with pytest.raises(AssertionError, match="what 1 roundings explain"):
        assert_rounded((x + z) + y, truth)


@pytest.mark.parametrize("score_roundings", [0, 2])
def test_attention_as_far_off_as_its_roundings_passes(score_roundings: int, draw: Random) -> None:
    q, k, v = (draw.normal(2, 4, 300, 32, dtype=torch.bfloat16) for _ in range(3))
    out = attention[{0: "fused", 2: "unfused"}[score_roundings]](q, k, v)

    assert_spread(out[1], *spread_attention(q[1], k[1], v[1], score_roundings))


@pytest.mark.parametrize("spoil", ["a factor", "the temperature", "the mask", "a row"])
def test_attention_with_a_small_error_does_not(spoil: str, draw: Random) -> None:
    q, k, v = (draw.normal(4, 300, 32, dtype=torch.bfloat16) for _ in range(3))
    expected, deviation = spread_attention(q, k, v, 2)
    result = expected.clone()
    if spoil == "a factor":
        result *= 1.02
    elif spoil == "the temperature":
        result = attention_reference(q.float() * 1.02, k, v)
    elif spoil == "the mask":
        result = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float())
    else:
        result[2, 299] = result[2, 298]

    with pytest.raises(AssertionError):
        assert_spread(result.bfloat16(), expected, deviation)
