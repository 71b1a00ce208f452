"""The fused operators as parts of a model in training: each with its fused backward behind it.

What a backward needs again is computed from the inputs, which are kept anyway; no intermediate is stored.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from kernels.add_rms_norm import add_rms_norm_fused
from kernels.rms_norm import rms_norm_fused
from kernels.rms_norm_backward import rms_norm_backward_fused
from kernels.rotary import rotary_fused
from kernels.swiglu import swiglu_fused
from kernels.swiglu_backward import swiglu_backward_fused

Pair = tuple[torch.Tensor, torch.Tensor]


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """`rms_norm_fused` with gradients: x (..., width), weight (width,)."""
    result: torch.Tensor = _RmsNorm.apply(x, weight, eps)
    return result


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> Pair:
    """`add_rms_norm_fused` with gradients: x and residual (..., width), weight (width,); gives (y, s)."""
    result: Pair = _AddRmsNorm.apply(x, residual, weight, eps)
    return result


def rotary(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Pair:
    """`rotary_fused` with gradients for q and k: (batch, length, heads, head width); the tables get none."""
    result: Pair = _Rotary.apply(q, k, cos, sin)
    return result


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """`swiglu_fused` with gradients: gate and up (..., width)."""
    result: torch.Tensor = _Swiglu.apply(gate, up)
    return result


def _norm_backward(gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float) -> Pair:
    width = x.shape[-1]
    rows = (gradient.contiguous().view(-1, width), x.view(-1, width))
    x_gradient, weight_gradient = rms_norm_backward_fused(*rows, weight, eps)
    return x_gradient.view_as(x), weight_gradient


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return rms_norm_fused(x, weight, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        x, weight = ctx.saved_tensors
        return *_norm_backward(gradient, x, weight, ctx.eps), None


class _AddRmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> Pair:
        out, total = add_rms_norm_fused(x, residual, weight, eps)
        ctx.save_for_backward(total, weight)
        ctx.eps = eps
        return out, total

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, out_gradient: torch.Tensor, total_gradient: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        total, weight = ctx.saved_tensors
        through_norm, weight_gradient = _norm_backward(out_gradient, total, weight, ctx.eps)
        # Both summands have the gradient of the sum.
        gradient = through_norm.add_(total_gradient)
        return gradient, gradient, weight_gradient, None


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Pair:
        ctx.save_for_backward(cos, sin)
        return rotary_fused(q, k, cos, sin)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, q_gradient: torch.Tensor, k_gradient: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        # A rotation's transpose is the rotation by the opposite angle.
        cos, sin = ctx.saved_tensors
        return *rotary_fused(q_gradient.contiguous(), k_gradient.contiguous(), cos, -sin), None, None


class _Swiglu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gate, up)
        return swiglu_fused(gate, up)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Pair:
        return swiglu_backward_fused(gradient.contiguous(), *ctx.saved_tensors)
