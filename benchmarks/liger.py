"""Liger-Kernel's operators on the inputs of a workload, where it is installed (`pip install liger-kernel`).

Written against its version 0.8.5. Each function gives {"liger": call}, or nothing where the package is missing.
Some of its operators write over their inputs; these stay finite over the rounds of a measurement, and are not
checked.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.workload import EPS

Ways = dict[str, Callable[[], Any]]

IS_INSTALLED = importlib.util.find_spec("liger_kernel") is not None


def _ops() -> Any:
    # Importing it takes seconds and asks for a GPU: only who measures it pays.
    import liger_kernel.ops  # noqa: PLC0415

    return liger_kernel.ops


# What its norms take behind the weight: eps, offset of the weight, casting mode, whether gradients are overwritten.
_NORM_OPTIONS = (EPS, 0.0, "llama", False)


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> Ways:
    return _way(lambda: _ops().LigerRMSNormFunction.apply(x, weight, *_NORM_OPTIONS))


def rms_norm_backward(gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> Ways:
    return _backward_way(
        lambda x, weight: _ops().LigerRMSNormFunction.apply(x, weight, *_NORM_OPTIONS),
        (x, weight),
        gradient,
    )


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> Ways:
    return _way(lambda: _ops().LigerFusedAddRMSNormFunction.apply(x, residual, weight, *_NORM_OPTIONS))


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> Ways:
    return _way(lambda: _ops().LigerSiLUMulFunction.apply(gate, up))


def swiglu_backward(gradient: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Ways:
    # It writes the gradients over gate and up: of copies, as the other ways need them.
    return _backward_way(_apply_swiglu, (gate.clone(), up.clone()), gradient) if IS_INSTALLED else {}


def rotary(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Ways:
    if not IS_INSTALLED:
        return {}
    # It turns in place, heads before tokens, by tables with a batch dimension.
    heads_first = [one.clone().transpose(1, 2) for one in (q, k)]
    return _way(lambda: _ops().LigerRopeFunction.apply(*heads_first, cos[None], sin[None]))


def softmax(x: torch.Tensor) -> Ways:
    return _way(lambda: _ops().LigerSoftmaxFunction.apply(x))


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> Ways:
    # Where the logits want a gradient, it is written over them in the forward pass, as the fused kernel here does.
    leaf = logits.detach().requires_grad_()

    def call() -> Any:
        from liger_kernel.transformers.functional import liger_cross_entropy  # noqa: PLC0415

        return liger_cross_entropy(leaf, targets)

    return _way(call)


def _apply_swiglu(gate: torch.Tensor, up: torch.Tensor) -> Any:
    return _ops().LigerSiLUMulFunction.apply(gate, up)


def _way(call: Callable[[], Any]) -> Ways:
    return {"liger": call} if IS_INSTALLED else {}


def _backward_way(forward: Callable[..., Any], inputs: tuple[torch.Tensor, ...], gradient: torch.Tensor) -> Ways:
    leaves = [one.detach().requires_grad_() for one in inputs]
    made: list[Any] = []

    def call() -> Any:
        if not made:
            made.append(forward(*leaves))
        return torch.autograd.grad(made[0], leaves, gradient, retain_graph=True)

    return _way(call)
