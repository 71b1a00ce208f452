from __future__ import annotations

import dataclasses

import pytest
import torch

from kernels import rms_norm_linear as operator
from kernels._tiling import Tiling
from perf_tests.closeness import assert_product
from tests.kernels.tensors import Random, assert_guarded, poisoned

TILINGS = [
    Tiling(rows=16, outputs=32, width=16, stages=2, num_warps=4, group=2),
    Tiling(rows=32, outputs=16, width=64, stages=3, num_warps=4, group=8, slices=2, is_flat=False),
]
LAUNCHES = [pytest.param(True, id="two launches"), pytest.param(False, id="one launch")]


# The interpreter multiplies bf16 by their bit patterns; fp16 stands in for the 16-bit type.
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("has_factors", LAUNCHES)
@pytest.mark.parametrize("tiling", TILINGS)
@pytest.mark.parametrize("programs", [3, 1000])
@pytest.mark.parametrize(("rows", "width", "outputs"), [(1, 16, 8), (50, 72, 40), (64, 64, 96)])
def test_the_kernels_equal_the_reference(
    rows: int,
    width: int,
    outputs: int,
    programs: int,
    tiling: Tiling,
    has_factors: bool,
    dtype: torch.dtype,
    draw: Random,
) -> None:
    tiling = dataclasses.replace(tiling, has_factors=has_factors)
    x, gain = draw.normal(rows, width, dtype=dtype), draw.gain(width, dtype)
    weight = draw.normal(outputs, width, dtype=dtype)
    folded = (weight.float() * gain.float()).to(dtype)

    out = operator._launch(x, folded, 1e-3, poisoned(rows, outputs, dtype=dtype), tiling, programs)

    assert_guarded(out)
    assert_product(out, operator.rms_norm_linear_reference(x, gain, weight, 1e-3), roundings=6)


@pytest.mark.parametrize("has_factors", LAUNCHES)
def test_a_row_that_is_not_finite_spoils_no_other_row(has_factors: bool, draw: Random) -> None:
    x, weight = draw.normal(40, 32, dtype=torch.float32), draw.normal(16, 32, dtype=torch.float32)
    x[7, 3], x[20, 0] = float("nan"), float("inf")
    tiling = dataclasses.replace(TILINGS[0], has_factors=has_factors)

    out = operator._launch(x, weight, 1e-3, poisoned(40, 16, dtype=torch.float32), tiling, 2)

    finite = torch.tensor([row for row in range(40) if row not in (7, 20)])
    assert torch.isnan(out[7]).all()
    assert_product(out[finite], operator.rms_norm_linear_reference(x[finite], torch.ones(32), weight, 1e-3))


@pytest.mark.parametrize(
    ("width", "outputs", "message"),
    [
        (18, 16, "x has rows of 18 elements, torch.float32 needs a multiple of 4"),
        (16, 6, "the output has rows of 6 elements, torch.float32 needs a multiple of 4"),
    ],
)
def test_rows_that_the_copy_engine_cannot_address_are_named(width: int, outputs: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        operator._launch(
            torch.ones(4, width), torch.ones(outputs, width), 1e-5, torch.ones(4, outputs), TILINGS[0], 1
        )


def test_an_unaligned_start_is_named() -> None:
    x = torch.ones(4 * 16 + 1)[1:].view(4, 16)
    with pytest.raises(ValueError, match=r"x does not start at a multiple of 16 bytes .*pass x.clone\(\)"):
        operator._launch(x, torch.ones(16, 16), 1e-5, torch.ones(4, 16), TILINGS[0], 1)
