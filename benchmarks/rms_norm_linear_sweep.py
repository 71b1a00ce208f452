"""Tilings of RMSNorm -> Linear worth a try on Hopper, for both designs, beside cuBLAS."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from benchmarks.rms_norm_linear_ahead import compute_row_factors, multiply_scaled
from benchmarks.workload import EPS, Source, Workload, relative_error, row_sample
from kernels import rms_norm_linear as operator
from kernels.rms_norm_linear import Tiling
from perf_tests.llama import WIDTH, Configuration

if TYPE_CHECKING:
    from benchmarks.kernels_on_gpu import Stopwatch

LARGE_TILINGS = [
    Tiling(128, 256, 64, stages=3, num_warps=8, slices=2),
    Tiling(128, 256, 64, stages=4, num_warps=8, slices=2),
    Tiling(128, 256, 64, stages=3, num_warps=8, slices=2, is_flat=False),
    Tiling(128, 256, 64, stages=4, num_warps=8, slices=2, is_flat=False),
    Tiling(128, 256, 64, stages=3, num_warps=8, slices=2, group=4),
    Tiling(128, 256, 64, stages=3, num_warps=8, slices=2, group=16),
    Tiling(256, 128, 64, stages=3, num_warps=8, slices=2),
    Tiling(256, 128, 64, stages=4, num_warps=8, slices=2, is_flat=False),
    Tiling(128, 128, 64, stages=4, num_warps=4, programs_per_sm=1),
    Tiling(128, 128, 64, stages=3, num_warps=4, programs_per_sm=2, is_flat=False),
    Tiling(128, 128, 64, stages=3, num_warps=8, programs_per_sm=2, is_flat=False),
    Tiling(128, 128, 128, stages=3, num_warps=8),
    Tiling(128, 256, 128, stages=2, num_warps=8, slices=2, is_flat=False),
    Tiling(128, 128, 64, stages=4, num_warps=8, is_flat=False, is_specialized=True),
    Tiling(128, 256, 64, stages=3, num_warps=8, slices=2, is_flat=False, is_specialized=True),
]
SMALL_TILINGS = [
    Tiling(64, 64, 128, stages=3, num_warps=4, is_flat=False),
    Tiling(64, 64, 128, stages=4, num_warps=4, is_flat=False),
    Tiling(64, 64, 128, stages=5, num_warps=4, is_flat=False),
    Tiling(64, 64, 64, stages=8, num_warps=4, is_flat=False),
    Tiling(64, 64, 256, stages=3, num_warps=4, is_flat=False),
    Tiling(128, 32, 128, stages=4, num_warps=4, is_flat=False),
    Tiling(128, 32, 128, stages=4, num_warps=8, is_flat=False),
    Tiling(64, 32, 128, stages=5, num_warps=4, is_flat=False, programs_per_sm=2),
    Tiling(64, 128, 128, stages=4, num_warps=4, is_flat=False),
]
DRY_TILINGS = [Tiling(16, 16, 16, stages=1, num_warps=4, is_flat=False)]


def sweep(
    configurations: dict[str, Configuration], source: Source, watch: Stopwatch, deadline_s: float
) -> list[dict[str, Any]]:
    """Time each tiling at each configuration, as fused kernel and as bare product with row factors given."""
    rows: list[dict[str, Any]] = []
    for label, configuration in reversed(configurations.items()):
        x, gain = source.normal(configuration.rows, WIDTH), source.gain(WIDTH)
        weight = source.normal(WIDTH, WIDTH) / WIDTH**0.5
        inputs = _Inputs(x, gain, weight)
        rows += inputs.measure_all(label, watch, deadline_s)
    return rows


@dataclasses.dataclass(frozen=True)
class _Inputs:
    x: torch.Tensor
    gain: torch.Tensor
    weight: torch.Tensor

    def measure_all(self, label: str, watch: Stopwatch, deadline_s: float) -> list[dict[str, Any]]:
        from benchmarks.kernels_on_gpu import measure  # noqa: PLC0415 (that module imports this one)

        workload = self._workload()
        case = f"rms_norm_linear {label}"
        rows = []
        for way, call in workload.ways.items():
            if time.monotonic() > deadline_s:
                print(f"{case}, {way}: left out, the time is up", flush=True)
                continue
            rows.append(measure(case, way, call, workload, watch))
        return rows

    def _workload(self) -> Workload:
        rows = self.x.shape[0]
        folded = operator.fold_norm_weight(self.gain, self.weight)
        ways: dict[str, Callable[[], Any]] = {"bare product (cuBLAS)": lambda: F.linear(self.x, self.weight)}
        if self.x.is_cuda:
            sm_count = torch.cuda.get_device_properties(self.x.device).multi_processor_count
            tilings = LARGE_TILINGS if rows > 256 else SMALL_TILINGS
        else:
            sm_count, tilings = 2, DRY_TILINGS
            folded = folded[:32]
        factors = compute_row_factors(self.x, EPS)
        ways["row factors alone"] = lambda: compute_row_factors(self.x, EPS)
        out = torch.empty((rows, folded.shape[0]), dtype=self.x.dtype, device=self.x.device)
        for tiling in tilings:
            ways[f"fused {_spell(tiling)}"] = functools.partial(
                operator._launch, self.x, folded, EPS, out, tiling, sm_count
            )
            ways[f"product {_spell(tiling)}"] = functools.partial(
                multiply_scaled, self.x, folded, factors, tiling, sm_count
            )
        some = row_sample(rows, self.x.device)
        truth = operator.rms_norm_linear_reference(self.x[some], self.gain, self.weight[: folded.shape[0]])
        return Workload(
            ways=ways,
            compiled=None,
            error=lambda out: relative_error(out[some], truth),
            bytes_moved=operator.rms_norm_linear_bytes(rows, WIDTH, WIDTH, self.x.element_size()),
            flops=operator.rms_norm_linear_flops(rows, WIDTH, WIDTH),
            unchecked=frozenset({"bare product (cuBLAS)", "row factors alone"}),
        )


def _spell(tiling: Tiling) -> str:
    marks = f"{'F' if tiling.is_flat else '-'}{'S' if tiling.is_specialized else '-'}"
    return (
        f"{tiling.rows}x{tiling.outputs}x{tiling.width} st{tiling.stages} w{tiling.num_warps} "
        f"g{tiling.group} e{tiling.slices} p{tiling.programs_per_sm} {marks}"
    )
