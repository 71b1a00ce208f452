from __future__ import annotations

import pytest
import torch

from kernels import cross_entropy as operator
from tests.kernels.tensors import DTYPES, SHAPES, Random, assert_guarded, assert_interpreted, poisoned


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("programs", [2, 1000])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_equals_the_reference(
    shape: tuple[int, int], programs: int, dtype: torch.dtype, draw: Random
) -> None:
    rows, vocabulary = shape
    # Far below zero: a masked element that counted as zero would carry all the weight.
    logits = poisoned(*shape, dtype=dtype)
    logits.copy_(draw.normal(*shape, dtype=torch.float32) * 3 - 50)
    targets = draw.indices(rows, vocabulary)
    expected_losses, expected_gradient = operator.cross_entropy_reference(logits, targets)

    losses, gradient = operator._launch(logits, targets, poisoned(rows, dtype=torch.float32), programs)

    assert gradient is logits
    assert_guarded(gradient)
    assert_guarded(losses)
    torch.testing.assert_close(losses, expected_losses, rtol=1e-5, atol=1e-5)
    # Times the rows, a gradient is a probability less a hit; near -50 fp32 knows a logit, and so the logarithm of
    # a probability, to 4e-6, below which the difference to 1 of a sure hit is noise.
    assert_interpreted(gradient, expected_gradient, scale=rows)


@pytest.mark.parametrize("target", [-100, -1, 10, 2**40])
def test_a_target_outside_of_the_vocabulary_gives_nan_for_its_row_only(target: int) -> None:
    logits, targets = torch.zeros(3, 10), torch.tensor([0, target, 9])

    losses, gradient = operator._launch(logits, targets, torch.empty(3), programs=2)

    assert torch.isnan(losses).tolist() == [False, True, False]
    assert torch.isnan(gradient).all(dim=1).tolist() == [False, True, False]
    assert torch.isnan(gradient).any(dim=1).tolist() == [False, True, False]
