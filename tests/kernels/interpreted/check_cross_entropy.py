from __future__ import annotations

import pytest
import torch

from kernels import cross_entropy as operator
from kernels.cross_entropy import Parts, Walk
from tests.kernels.tensors import DTYPES, SHAPES, Random, assert_guarded, assert_interpreted, poisoned

# Programs with several rows each and with one at most; parts that leave a rest, and one part.
PLANS = [Walk(3, 1, 3), Walk(1, 1, 1), Parts(16, 1), Parts(128, 1)]
SMALL_PLANS = [Walk(2, 1, 3), Parts(4, 1)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_equals_the_reference(
    shape: tuple[int, int], plan: Walk | Parts, dtype: torch.dtype, draw: Random
) -> None:
    rows, vocabulary = shape
    # Far below zero: a masked element that counted as zero would carry all the weight.
    logits = poisoned(*shape, dtype=dtype)
    logits.copy_(draw.normal(*shape, dtype=torch.float32) * 3 - 50)
    targets = draw.indices(rows, vocabulary)
    expected_losses, expected_gradient = operator.cross_entropy_reference(logits, targets)

    losses, gradient = operator._launch(logits, targets, poisoned(rows, dtype=torch.float32), plan)

    assert gradient is logits
    assert_guarded(gradient)
    assert_guarded(losses)
    torch.testing.assert_close(losses, expected_losses, rtol=1e-5, atol=1e-5)
    # Times the rows, a gradient is a probability less a hit; near -50 fp32 knows a logit, and so the logarithm of
    # a probability, to 4e-6, below which the difference to 1 of a sure hit is noise.
    assert_interpreted(gradient, expected_gradient, scale=rows)


@pytest.mark.parametrize("plan", SMALL_PLANS)
@pytest.mark.parametrize("target", [-100, -1, 10, 2**40])
def test_a_target_outside_of_the_vocabulary_gives_nan_for_its_row_only(target: int, plan: Walk | Parts) -> None:
    logits, targets = torch.zeros(3, 10), torch.tensor([0, target, 9])

    losses, gradient = operator._launch(logits, targets, torch.empty(3), plan)

    assert torch.isnan(losses).tolist() == [False, True, False]
    assert torch.isnan(gradient).all(dim=1).tolist() == [False, True, False]
    assert torch.isnan(gradient).any(dim=1).tolist() == [False, True, False]


@pytest.mark.parametrize("plan", SMALL_PLANS)
@pytest.mark.parametrize("hidden", [slice(0, 8), slice(4, 10)])
def test_a_part_of_nothing_but_minus_infinity_weighs_nothing(
    hidden: slice, plan: Walk | Parts, draw: Random
) -> None:
    logits, targets = draw.normal(3, 10, dtype=torch.float32), torch.tensor([9, 9, 8])
    if hidden.start:
        targets = torch.tensor([0, 1, 3])
    logits[:, hidden] = float("-inf")
    expected_losses, expected_gradient = operator.cross_entropy_reference(logits, targets)

    losses, gradient = operator._launch(logits, targets, torch.empty(3), plan)

    torch.testing.assert_close(losses, expected_losses)
    torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("plan", SMALL_PLANS)
@pytest.mark.parametrize("level", [-1e4, 1e4])
def test_logits_far_from_zero_neither_overflow_nor_vanish(level: float, plan: Walk | Parts, draw: Random) -> None:
    # The first part is hidden, so that the first sum that counts follows one of nothing.
    logits, targets = level + 100 * draw.normal(3, 10, dtype=torch.float32), torch.tensor([9, 8, 9])
    logits[:, :4] = float("-inf")
    expected_losses, expected_gradient = operator.cross_entropy_reference(logits, targets)

    losses, gradient = operator._launch(logits, targets, torch.empty(3), plan)

    # fp32 knows logits near 1e4 to half a thousandth.
    torch.testing.assert_close(losses, expected_losses, rtol=0, atol=4e-3)
    torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=4e-3)
