"""Tilings of RMSNorm -> Linear worth a try on Hopper, beside cuBLAS: where `choose_tiling`'s table comes from."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from benchmarks.workload import EPS, Source, Workload, relative_error, row_sample
from kernels import rms_norm_linear as operator
from kernels._tiling import Tiling
from perf_tests.llama import WIDTH, Configuration

if TYPE_CHECKING:
    from benchmarks.kernels_on_gpu import Stopwatch

LARGE_TILINGS = [
    Tiling(128, 256, 64, stages=3, num_warps=8, slices=2, group=4),
    Tiling(128, 256, 64, stages=3, num_warps=8, slices=2, group=2),
    Tiling(128, 256, 64, stages=3, num_warps=8, slices=2, group=8),
    Tiling(128, 256, 64, stages=3, num_warps=8, group=4),
    Tiling(128, 256, 64, stages=3, num_warps=8, slices=2, is_flat=False),
    Tiling(128, 256, 64, stages=4, num_warps=8, slices=2, is_flat=False),
    Tiling(256, 128, 64, stages=4, num_warps=8, slices=2, is_flat=False),
    Tiling(128, 128, 64, stages=5, num_warps=4),
    Tiling(128, 128, 64, stages=6, num_warps=4),
    Tiling(128, 128, 64, stages=4, num_warps=4, is_flat=False),
]
SMALL_TILINGS = [
    Tiling(64, 64, 128, stages=4, num_warps=4, is_flat=False, has_factors=False),
    Tiling(64, 64, 128, stages=5, num_warps=4, is_flat=False, has_factors=False),
    Tiling(64, 64, 128, stages=6, num_warps=4, is_flat=False, has_factors=False),
    Tiling(64, 64, 128, stages=6, num_warps=8, is_flat=False, has_factors=False),
    Tiling(64, 64, 128, stages=6, num_warps=4, has_factors=False),
    Tiling(64, 64, 64, stages=12, num_warps=4, is_flat=False, has_factors=False),
    Tiling(64, 64, 256, stages=3, num_warps=4, is_flat=False, has_factors=False),
    Tiling(128, 32, 128, stages=4, num_warps=4, is_flat=False, has_factors=False),
    Tiling(64, 64, 128, stages=6, num_warps=4, is_flat=False),
]
DRY_TILINGS = [
    Tiling(16, 16, 16, stages=1, num_warps=4, is_flat=False),
    Tiling(16, 16, 16, stages=1, num_warps=4, is_flat=False, has_factors=False),
]


def sweep(
    configurations: dict[str, Configuration], source: Source, watch: Stopwatch, deadline_s: float
) -> list[dict[str, Any]]:
    """Check and time each tiling at each configuration."""
    from benchmarks.kernels_on_gpu import measure  # noqa: PLC0415 (that module imports this one)

    rows: list[dict[str, Any]] = []
    for label, configuration in configurations.items():
        case = f"rms_norm_linear {label}"
        workload = _make_workload(configuration.rows, source)
        for way, call in workload.ways.items():
            if time.monotonic() > deadline_s:
                print(f"{case}, {way}: left out, the time is up", flush=True)
                continue
            rows.append(measure(case, way, call, workload, watch))
    return rows


def _make_workload(rows: int, source: Source) -> Workload:
    is_cuda = source.device.type == "cuda"
    outputs = WIDTH if is_cuda else 32
    x, gain = source.normal(rows, WIDTH), source.gain(WIDTH)
    weight = source.normal(outputs, WIDTH) / WIDTH**0.5
    folded = operator.fold_norm_weight(gain, weight)
    if is_cuda:
        sm_count = torch.cuda.get_device_properties(source.device).multi_processor_count
        tilings = LARGE_TILINGS if rows > 256 else SMALL_TILINGS
    else:
        sm_count, tilings = 2, DRY_TILINGS
    ways: dict[str, Callable[[], Any]] = {
        "bare product (cuBLAS)": lambda: F.linear(x, weight),
        "row factors alone": lambda: operator._launch_factors(x, EPS),
    }
    out = torch.empty((rows, outputs), dtype=x.dtype, device=x.device)
    for tiling in tilings:
        ways[_spell(tiling)] = functools.partial(operator._launch, x, folded, EPS, out, tiling, sm_count)
    some = row_sample(rows, x.device)
    truth = operator.rms_norm_linear_reference(x[some], gain, weight)
    return Workload(
        ways=ways,
        compiled=None,
        error=lambda out: relative_error(out[some], truth),
        bytes_moved=operator.rms_norm_linear_bytes(rows, WIDTH, outputs, x.element_size()),
        flops=operator.rms_norm_linear_flops(rows, WIDTH, outputs),
        unchecked=frozenset({"bare product (cuBLAS)", "row factors alone"}),
    )


def _spell(tiling: Tiling) -> str:
    launches = "2 launches" if tiling.has_factors else "1 launch"
    return (
        f"{launches} {tiling.rows}x{tiling.outputs}x{tiling.width} st{tiling.stages} w{tiling.num_warps} "
        f"g{tiling.group} e{tiling.slices} {'flat' if tiling.is_flat else ''}"
    ).rstrip()
