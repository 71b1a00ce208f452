from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from kernels._tiling import Tiling, choose_tiling
from kernels.rms_norm_linear import (
    _rms_norm_linear_fused_kernel,
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


def compile_for_hopper(tiling: Tiling, width: int) -> str:
    """The product's GPU code for bf16 as Triton pipelines it, before it is lowered; needs no GPU."""
    import triton  # noqa: PLC0415 (only where Triton is)
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415
    from triton.compiler import ASTSource  # noqa: PLC0415

    constants = {
        "WIDTH": width,
        "ROWS": tiling.rows,
        "OUTPUTS": tiling.outputs,
        "STEP": tiling.width,
        "GROUP": tiling.group,
        "SLICES": tiling.slices,
        "FLAT": tiling.is_flat,
        "HAS_FACTORS": tiling.has_factors,
        "PRECISION": "tf32",
    }
    types = {
        "x_desc": f"tensordesc<bf16[{tiling.rows},{tiling.width}]>",
        "weight_desc": f"tensordesc<bf16[{tiling.outputs},{tiling.width}]>",
        "out_desc": f"tensordesc<bf16[{tiling.rows},{tiling.outputs // tiling.slices}]>",
        "factor_ptr": "*fp32",
        **dict.fromkeys(("rows", "outputs"), "i32"),
        "eps": "fp32",
        **dict.fromkeys(constants, "constexpr"),
    }
    source = ASTSource(_rms_norm_linear_fused_kernel, types, constants)
    options = {"num_stages": tiling.stages, "num_warps": tiling.num_warps}
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    return str(compiled.asm["ttgir"])


def test_folding_scales_the_columns_of_the_linear_weight(draw: Random) -> None:
    gain, weight = draw.gain(6, torch.float32), draw.normal(4, 6, dtype=torch.float32)

    assert torch.equal(fold_norm_weight(gain, weight), weight @ torch.diag(gain))


@pytest.mark.parametrize("rows", [1, 128, 512, 4096, 65536])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tiling_fits_into_the_shared_memory_of_a_hopper_sm(rows: int, dtype: torch.dtype) -> None:
    tiling = choose_tiling(rows, 4096, dtype)

    loaded = tiling.stages * (tiling.rows + tiling.outputs) * tiling.width * dtype.itemsize
    stored = tiling.rows * tiling.outputs // tiling.slices * dtype.itemsize
    assert loaded + stored <= 227 * 1024 - 1024


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 128, 512, 4096, 65536])
def test_no_tile_is_overwritten_while_a_matrix_instruction_reads_it(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled for Hopper, tiles of x and of the weight stay as long as the pipeline is deep.

    A compiler that sees a tile copied to registers keeps it one step less than the product reads it.
    """
    pytest.importorskip("triton", reason="Triton is not installed here; its kernels cannot be compiled")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    tiling = choose_tiling(rows, 4096, torch.bfloat16)

    code = compile_for_hopper(tiling, width=4096)

    slots = re.findall(r"ttg.local_alloc : \(\) -> !ttg.memdesc<(\d+)x(\d+)x(\d+)xbf16", code)
    tiles = {(int(height), int(width)): int(count) for count, height, width in slots}
    assert tiles == {(height, tiling.width): tiling.stages for height in (tiling.rows, tiling.outputs)}
    assert code.count("ttng.warp_group_dot ") >= 1
    assert "ttg.local_load" not in code


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rows", "width", "outputs"),
    [(1, 64, 40), (128, 4096, 4096), (200, 1000, 520), (300, 4096, 4096), (4099, 4096, 4104), (9000, 520, 2056)],
)
def test_on_a_gpu_repeated_calls_equal_the_reference_and_each_other_bit_for_bit(
    rows: int, width: int, outputs: int, dtype: torch.dtype, seed: int
) -> None:
    draw = torch.Generator("cuda").manual_seed(seed)
    x = torch.randn(rows, width, generator=draw, device="cuda", dtype=dtype)
    gain = 1 + 0.1 * torch.randn(width, generator=draw, device="cuda", dtype=dtype)
    weight = torch.randn(outputs, width, generator=draw, device="cuda", dtype=dtype)
    folded = fold_norm_weight(gain, weight)

    out = rms_norm_linear_fused(x, folded)
    again = [rms_norm_linear_fused(x, folded) for _ in range(20)]

    assert_product(out, rms_norm_linear_reference(x, gain, weight), roundings=6)
    assert all(torch.equal(other, out) for other in again)


def test_a_weight_of_another_width_is_named() -> None:
    with pytest.raises(ValueError, match=r"folded_weight has shape \(4, 24\), \(4, 16\) is needed to go with x"):
        rms_norm_linear_fused(torch.ones(2, 16), torch.ones(4, 24))


def test_an_x_of_three_dimensions_is_named() -> None:
    with pytest.raises(ValueError, match=r"x has shape \(1, 2, 16\), 2 dimensions are needed"):
        rms_norm_linear_fused(torch.ones(1, 2, 16), torch.ones(4, 16))
