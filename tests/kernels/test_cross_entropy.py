from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from kernels.cross_entropy import cross_entropy, cross_entropy_fused, cross_entropy_reference
from perf_tests.closeness import assert_rounded
from tests.kernels.tensors import DTYPES, SHAPES, Random


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_each_variant_equals_the_reference(
    variant: str, shape: tuple[int, int], dtype: torch.dtype, draw: Random
) -> None:
    rows, vocabulary = shape
    logits, targets = draw.normal(*shape, dtype=dtype) * 3, draw.indices(rows, vocabulary)
    expected_losses, expected_gradient = cross_entropy_reference(logits, targets)

    losses, gradient = cross_entropy[variant](logits, targets)

    assert losses.dtype == torch.float32
    torch.testing.assert_close(losses, expected_losses, rtol=1e-5, atol=1e-5)
    assert gradient.dtype == dtype
    assert_rounded(gradient, expected_gradient, scale=rows * vocabulary)


def test_the_reference_is_what_autograd_finds_in_double_precision(draw: Random) -> None:
    logits = draw.normal(9, 31, dtype=torch.float64).double().requires_grad_()
    targets = draw.indices(9, 31)
    loss = F.cross_entropy(logits, targets)
    loss.backward()

    losses, gradient = cross_entropy_reference(logits.detach(), targets)

    assert logits.grad is not None
    torch.testing.assert_close(losses.mean().double(), loss.detach(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(gradient.double(), logits.grad, rtol=1e-5, atol=1e-7)


def test_the_fused_gradient_lies_where_the_logits_were(draw: Random) -> None:
    logits = draw.normal(4, 10, dtype=torch.bfloat16)

    _, gradient = cross_entropy_fused(logits, draw.indices(4, 10))

    assert gradient.data_ptr() == logits.data_ptr()


def test_the_unfused_variant_leaves_the_logits_alone(draw: Random) -> None:
    logits = draw.normal(4, 10, dtype=torch.bfloat16)
    kept = logits.clone()

    cross_entropy["unfused"](logits, draw.indices(4, 10))

    assert torch.equal(logits, kept)
    assert not logits.requires_grad


def test_targets_of_another_type_are_named() -> None:
    with pytest.raises(TypeError, match=r"targets is torch\.int32, torch\.int64 is needed"):
        cross_entropy_fused(torch.ones(2, 8), torch.zeros(2, dtype=torch.int32))


def test_targets_that_are_no_tensor_are_named() -> None:
    with pytest.raises(TypeError, match=r"targets is list, a torch\.Tensor is needed"):
        cross_entropy_fused(torch.ones(2, 8), [0, 1])  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [-100, 8])
def test_targets_outside_of_the_vocabulary_are_named_and_nothing_is_written(wrong: int) -> None:
    logits = torch.ones(2, 8)

    with pytest.raises(ValueError, match=rf"targets holds {wrong}, 0 to 7 is needed"):
        cross_entropy_fused(logits, torch.tensor([0, wrong]))
    assert torch.equal(logits, torch.ones(2, 8))


def test_logits_whose_gradient_is_wanted_are_not_written_over() -> None:
    with pytest.raises(ValueError, match=r"logits requires grad and .*; pass logits\.detach\(\)"):
        cross_entropy_fused(torch.ones(2, 8, requires_grad=True), torch.zeros(2, dtype=torch.int64))


def test_too_few_targets_are_named() -> None:
    with pytest.raises(ValueError, match=r"targets has shape \(3,\), \(2,\) is needed"):
        cross_entropy_fused(torch.ones(2, 8), torch.zeros(3, dtype=torch.int64))
