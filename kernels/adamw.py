"""AdamW step: m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; p = p - lr (wd p + m' / (sqrt(v') + eps)).

m' and v' are m / (1 - b1^t) and v / (1 - b2^t). For N parameters of B bytes: reads p, g, m, v and writes p, m, v,
7*N*B bytes. `fused=True` of torch does that in one pass over lists of tensors (and one over the step counts),
each launch taking some dozens of tensors and some 20 million elements; `foreach=True`, torch's default, takes
about 12 passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Settings:
    """Of the optimizer.

    Attributes:
        learning_rate: lr.
        betas: b1 and b2.
        eps: added to the root of the second moment.
        weight_decay: wd.
    """

    learning_rate: float = 3e-4
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1


SETTINGS = Settings()


def adamw_reference(
    parameter: torch.Tensor, gradients: Sequence[torch.Tensor], settings: Settings = SETTINGS
) -> torch.Tensor:
    """The parameter in fp32 after one step per gradient, moments starting from zero.

    Args:
        parameter: of any shape.
        gradients: like the parameter, one per step.
        settings: of the optimizer.
    """
    value = parameter.float()
    first, second = torch.zeros_like(value), torch.zeros_like(value)
    beta1, beta2 = settings.betas
    for step, gradient in enumerate(gradients, start=1):
        first = beta1 * first + (1 - beta1) * gradient.float()
        second = beta2 * second + (1 - beta2) * gradient.float().square()
        direction = first / (1 - beta1**step) / ((second / (1 - beta2**step)).sqrt() + settings.eps)
        value = value - settings.learning_rate * (settings.weight_decay * value + direction)
    return value


def adamw_unfused(parameters: Sequence[torch.Tensor], settings: Settings = SETTINGS) -> torch.optim.AdamW:
    """Torch's AdamW over lists of tensors, one operation after the other: call its `step`."""
    return _make(parameters, settings, foreach=True, fused=False)


def adamw_fused(parameters: Sequence[torch.Tensor], settings: Settings = SETTINGS) -> torch.optim.AdamW:
    """Torch's AdamW with its own fused kernel, on a GPU and on the CPU: call its `step`."""
    return _make(parameters, settings, foreach=False, fused=True)


def _make(
    parameters: Sequence[torch.Tensor], settings: Settings, *, foreach: bool, fused: bool
) -> torch.optim.AdamW:
    return torch.optim.AdamW(
        list(parameters),
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.eps,
        weight_decay=settings.weight_decay,
        foreach=foreach,
        fused=fused,
    )


adamw: dict[str, Callable[..., torch.optim.AdamW]] = {"fused": adamw_fused, "unfused": adamw_unfused}
"""The variants by the names that perf tests use."""


def adamw_bytes(parameters: int, itemsize: int) -> int:
    """Bytes that must move: parameter, gradient and moments read, parameter and moments written."""
    return 7 * parameters * itemsize


def adamw_flops(parameters: int) -> int:
    """Floating-point operations a parameter: 3 and 4 for the moments, 8 for the step."""
    return 15 * parameters
