from __future__ import annotations

import pytest
import torch

from kernels.block import block, block_step_bytes, block_step_flops
from perf_tests.closeness import assert_product
from tests.kernels.block_case import find_gradients, make_block_case

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("size", [(1, 1, 16), (2, 7, 24), (3, 33, 64)])
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_result_and_gradients_equal_the_reference(variant: str, size: tuple[int, int, int], seed: int) -> None:
    case = make_block_case(size, mlp_width=40, dtype=torch.float32, seed=seed)

    out = block[variant](case.x, case.weights, case.tables)

    torch.testing.assert_close(out, case.out, rtol=1e-4, atol=1e-4)
    for name, gradient in find_gradients(case, out).items():
        torch.testing.assert_close(
            gradient, case.gradients[name], rtol=1e-3, atol=1e-3, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_in_bf16_errors_stay_those_of_roundings(variant: str, seed: int) -> None:
    """Some dozen roundings lie between x and a gradient; what is missing a term is off by more than that."""
    case = make_block_case((2, 40, 64), mlp_width=96, dtype=torch.bfloat16, seed=seed)

    out = block[variant](case.x, case.weights, case.tables)

    assert out.dtype == torch.bfloat16
    assert_product(out.detach(), case.out, roundings=20)
    for name, gradient in find_gradients(case, out).items():
        error = float((gradient.float() - case.gradients[name]).norm() / case.gradients[name].norm())
        assert error < 0.05, name


def test_a_step_moves_its_parameters_ten_times_and_multiplies_three_times_as_much_as_forward() -> None:
    parameters = 4 * 8 * 8 + 3 * 8 * 20 + 2 * 8

    assert block_step_bytes(rows=6, width=8, mlp_width=20, itemsize=2) == 2 * (10 * parameters + 4 * 6 * 8)
    forward = 2 * 6 * (4 * 8 * 8 + 3 * 8 * 20) + 2 * 2 * 2 * (3 * 4) * 4
    assert block_step_flops(batch=2, length=3, width=8, heads=2, mlp_width=20) == 3 * forward
