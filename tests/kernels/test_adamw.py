from __future__ import annotations

import pytest
import torch

from kernels.adamw import adamw, adamw_reference
from tests.kernels.tensors import Random


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_each_variant_equals_the_reference_over_several_steps(variant: str, draw: Random) -> None:
    shapes = [(7,), (5, 3), (64,)]
    parameters = [torch.nn.Parameter(draw.normal(*shape, dtype=torch.float32)) for shape in shapes]
    gradients = [[draw.normal(*shape, dtype=torch.float32) for shape in shapes] for _ in range(3)]
    starts = [parameter.detach().clone() for parameter in parameters]
    optimizer = adamw[variant](parameters)

    for step in gradients:
        for parameter, gradient in zip(parameters, step, strict=True):
            parameter.grad = gradient
        optimizer.step()

    for index, (parameter, start) in enumerate(zip(parameters, starts, strict=True)):
        expected = adamw_reference(start, [step[index] for step in gradients])
        assert not torch.equal(parameter, start)
        torch.testing.assert_close(parameter.detach(), expected, rtol=1e-6, atol=1e-6)


def test_the_reference_moves_against_the_sign_of_the_first_gradient_by_the_learning_rate() -> None:
    """On step one the moments cancel to the gradient's sign, whatever its size; decay shrinks the parameter."""
    moved = adamw_reference(torch.tensor([1.0, 1.0, 1.0]), [torch.tensor([5.0, -1e-3, 0.0])])

    decayed = 1 - 3e-4 * 0.1
    torch.testing.assert_close(moved, torch.tensor([decayed - 3e-4, decayed + 3e-4, decayed]))
