from __future__ import annotations

import pytest
import torch

from kernels.rms_norm_linear import (
    choose_tiling,
    fold_norm_weight,
    rms_norm_linear_fused,
    rms_norm_linear_reference,
    rms_norm_linear_unfused,
)
from perf_tests.closeness import assert_product
from tests.kernels.tensors import DTYPES, Random

SHAPES = [(1, 64, 40), (33, 96, 64), (130, 256, 72)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "width", "outputs"), SHAPES)
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_each_variant_equals_the_reference(
    variant: str, rows: int, width: int, outputs: int, dtype: torch.dtype, draw: Random
) -> None:
    x, gain = draw.normal(rows, width, dtype=dtype), draw.gain(width, dtype)
    weight = draw.normal(outputs, width, dtype=dtype)

    if variant == "fused":
        out = rms_norm_linear_fused(x, fold_norm_weight(gain, weight))
    else:
        out = rms_norm_linear_unfused(x, gain, weight)

    assert out.dtype == dtype
    # The CPU's fused path rounds the product before it scales it, once more than the kernel. In few rows the
    # errors of x do not average out: twice as many roundings are let pass.
    assert_product(out, rms_norm_linear_reference(x, gain, weight), roundings=6)


def test_folding_scales_the_columns_of_the_linear_weight(draw: Random) -> None:
    gain, weight = draw.gain(6, torch.float32), draw.normal(4, 6, dtype=torch.float32)

    assert torch.equal(fold_norm_weight(gain, weight), weight @ torch.diag(gain))


@pytest.mark.parametrize("rows", [1, 128, 4096, 65536])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tiling_fits_into_the_shared_memory_of_a_hopper_sm(rows: int, dtype: torch.dtype) -> None:
    tiling = choose_tiling(rows, 4096, dtype)

    loaded = tiling.stages * (tiling.rows + tiling.outputs) * tiling.width * dtype.itemsize
    stored = tiling.rows * tiling.outputs // tiling.slices * dtype.itemsize
    assert loaded + stored <= 227 * 1024 - 1024


def test_a_weight_of_another_width_is_named() -> None:
    with pytest.raises(ValueError, match=r"folded_weight has shape \(4, 24\), \(4, 16\) is needed to go with x"):
        rms_norm_linear_fused(torch.ones(2, 16), torch.ones(4, 24))


def test_an_x_of_three_dimensions_is_named() -> None:
    with pytest.raises(ValueError, match=r"x has shape \(1, 2, 16\), 2 dimensions are needed"):
        rms_norm_linear_fused(torch.ones(1, 2, 16), torch.ones(4, 16))
