"""The norms, alone and with what surrounds them, for `kernels_on_gpu.py`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from benchmarks import liger
from benchmarks.workload import EPS, Source, Workload, relative_error, row_sample
from kernels.add_rms_norm import (
    add_rms_norm_bytes,
    add_rms_norm_flops,
    add_rms_norm_fused,
    add_rms_norm_reference,
    add_rms_norm_unfused,
)
from kernels.rms_norm import (
    rms_norm_bytes,
    rms_norm_flops,
    rms_norm_fused,
    rms_norm_reference,
    rms_norm_unfused,
)
from kernels.rms_norm_backward import (
    rms_norm_backward_bytes,
    rms_norm_backward_flops,
    rms_norm_backward_fused,
    rms_norm_backward_reference,
    rms_norm_backward_unfused,
)
from kernels.rms_norm_linear import (
    fold_norm_weight,
    rms_norm_linear_bytes,
    rms_norm_linear_flops,
    rms_norm_linear_fused,
    rms_norm_linear_reference,
    rms_norm_linear_unfused,
)
from perf_tests.llama import WIDTH, Configuration


def make_rms_norm(configuration: Configuration, source: Source) -> Workload:
    rows = configuration.rows
    x, weight = source.normal(rows, WIDTH), source.gain(WIDTH)
    some = row_sample(rows, source.device)
    return Workload(
        ways={
            "fused": lambda: rms_norm_fused(x, weight),
            "unfused": lambda: rms_norm_unfused(x, weight),
            "torch": lambda: F.rms_norm(x, (WIDTH,), weight, EPS),
            **liger.rms_norm(x, weight),
        },
        compiled=(rms_norm_unfused, (x, weight)),
        error=lambda out: relative_error(out[some], rms_norm_reference(x[some], weight)),
        bytes_moved=rms_norm_bytes(rows, WIDTH, source.dtype.itemsize),
        flops=rms_norm_flops(rows, WIDTH),
    )


def make_add_rms_norm(configuration: Configuration, source: Source) -> Workload:
    rows = configuration.rows
    x, residual, weight = source.normal(rows, WIDTH), source.normal(rows, WIDTH), source.gain(WIDTH)
    some = row_sample(rows, source.device)

    def error(outs: tuple[torch.Tensor, torch.Tensor]) -> float:
        truths = add_rms_norm_reference(x[some], residual[some], weight)
        return max(relative_error(out[some], truth) for out, truth in zip(outs, truths, strict=True))

    return Workload(
        ways={
            "fused": lambda: add_rms_norm_fused(x, residual, weight),
            "unfused": lambda: add_rms_norm_unfused(x, residual, weight),
            "torch": lambda: _add_then_norm(x, residual, weight),
            **liger.add_rms_norm(x, residual, weight),
        },
        compiled=(add_rms_norm_unfused, (x, residual, weight)),
        error=error,
        bytes_moved=add_rms_norm_bytes(rows, WIDTH, source.dtype.itemsize),
        flops=add_rms_norm_flops(rows, WIDTH),
    )


def _add_then_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return F.rms_norm(total, (WIDTH,), weight, EPS), total


def make_rms_norm_linear(configuration: Configuration, source: Source) -> Workload:
    rows = configuration.rows
    x, gain = source.normal(rows, WIDTH), source.gain(WIDTH)
    weight = source.normal(WIDTH, WIDTH) / WIDTH**0.5
    folded = fold_norm_weight(gain, weight)
    some = row_sample(rows, source.device)
    return Workload(
        ways={
            "fused": lambda: rms_norm_linear_fused(x, folded),
            "unfused": lambda: rms_norm_linear_unfused(x, gain, weight),
            "fused norm, then cuBLAS": lambda: F.linear(rms_norm_fused(x, gain), weight),
            "bare product (cuBLAS)": lambda: F.linear(x, weight),
        },
        compiled=(rms_norm_linear_unfused, (x, gain, weight)),
        error=lambda out: relative_error(out[some], rms_norm_linear_reference(x[some], gain, weight)),
        bytes_moved=rms_norm_linear_bytes(rows, WIDTH, WIDTH, source.dtype.itemsize),
        flops=rms_norm_linear_flops(rows, WIDTH, WIDTH),
        unchecked=frozenset({"bare product (cuBLAS)"}),
    )


def make_rms_norm_backward(configuration: Configuration, source: Source) -> Workload:
    rows = configuration.rows
    gradient, x, weight = source.normal(rows, WIDTH), source.normal(rows, WIDTH), source.gain(WIDTH)
    some = row_sample(rows, source.device)
    leaves = (x.detach().requires_grad_(), weight.detach().requires_grad_())
    out = F.rms_norm(leaves[0], (WIDTH,), leaves[1], EPS)

    def error(outs: tuple[torch.Tensor, torch.Tensor]) -> float:
        x_truth, _ = rms_norm_backward_reference(gradient[some], x[some], weight)
        weight_truth = torch.zeros(WIDTH, device=x.device)
        for part in zip(gradient.split(4096), x.split(4096), strict=True):
            weight_truth += rms_norm_backward_reference(*part, weight)[1]
        return max(relative_error(outs[0][some], x_truth), relative_error(outs[1], weight_truth))

    return Workload(
        ways={
            "fused": lambda: rms_norm_backward_fused(gradient, x, weight),
            "unfused": lambda: rms_norm_backward_unfused(gradient, x, weight),
            "torch": lambda: torch.autograd.grad(out, leaves, gradient, retain_graph=True),
            **liger.rms_norm_backward(gradient, x, weight),
        },
        compiled=(rms_norm_backward_unfused, (gradient, x, weight)),
        error=error,
        bytes_moved=rms_norm_backward_bytes(rows, WIDTH, source.dtype.itemsize),
        flops=rms_norm_backward_flops(rows, WIDTH),
    )
