"""The checks that perf tests rest on let roundings pass and catch small systematic errors."""

from __future__ import annotations

import pytest
import torch

from perf_tests.closeness import assert_product, assert_rounded, sample_rows
from tests.kernels.tensors import DTYPES, Random


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
