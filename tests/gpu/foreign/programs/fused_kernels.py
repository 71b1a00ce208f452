"""Projects whose own Triton kernels are the product: Liger-Kernel, flash-linear-attention, cut-cross-entropy."""

# ruff: noqa: PLC0415 - a program's packages are imported by its own case alone

from __future__ import annotations

from contextlib import ExitStack

import torch

from tests.gpu.foreign.programs.registry import Body, integers, normal, program, sized

LIGER, FLA, CCE = "Liger-Kernel", "flash-linear-attention", "cut-cross-entropy"
_HIDDEN = 2048
_VOCABULARY = 32_000


def _gradients(output: torch.Tensor, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad(output, inputs, torch.ones_like(output))


@program(LIGER, "liger_kernel", needs_gpu=True)
def liger_rms_norm(device: str, stack: ExitStack) -> Body:
    """Forward and backward."""
    from liger_kernel.transformers import LigerRMSNorm

    norm = LigerRMSNorm(_HIDDEN, in_place=False).to(device, torch.bfloat16)
    x = normal(device, 8192, _HIDDEN, grad=True)
    return lambda: _gradients(norm(x), [x, norm.weight])


@program(LIGER, "liger_kernel", needs_gpu=True)
def liger_swiglu(device: str, stack: ExitStack) -> Body:
    """Forward only: its backward writes over its inputs."""
    from liger_kernel.ops import LigerSiLUMulFunction

    gate, up = normal(device, 8192, 5504), normal(device, 8192, 5504)
    return lambda: LigerSiLUMulFunction.apply(gate, up)


@program(LIGER, "liger_kernel", needs_gpu=True)
def liger_layer_norm(device: str, stack: ExitStack) -> Body:
    """Forward and backward."""
    from liger_kernel.transformers import LigerLayerNorm

    norm = LigerLayerNorm(_HIDDEN).to(device, torch.bfloat16)
    x = normal(device, 4096, _HIDDEN, grad=True)
    return lambda: _gradients(norm(x), [x, norm.weight])


@program(LIGER, "liger_kernel", needs_gpu=True)
def liger_fused_linear_cross_entropy(device: str, stack: ExitStack) -> Body:
    """Forward, which already computes the gradients, and backward, which scales them."""
    from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss

    loss = LigerFusedLinearCrossEntropyLoss()
    x, weight = normal(device, 4096, _HIDDEN, grad=True), normal(device, _VOCABULARY, _HIDDEN, grad=True)
    targets = integers(device, _VOCABULARY, 4096)
    return lambda: torch.autograd.grad(loss(weight, x, targets), [x, weight])


def _heads(device: str, *, grad: bool = False) -> list[torch.Tensor]:
    """Queries, keys and values: (sequences, tokens, heads, width)."""
    made = normal(device, 3, 4, 2048, 8, 64)
    return [one.clone().requires_grad_(grad) for one in made]


@program(FLA, "fla", "einops", needs_gpu=True)
def fla_gated_linear_attention(device: str, stack: ExitStack) -> Body:
    """Forward and backward; triton.autotune chooses anew in every process.

    The chunked form takes three minutes to compile where Triton's cache is empty.
    """
    from fla.ops.gla import fused_recurrent_gla

    q, k, v = _heads(device, grad=True)
    gate = torch.nn.functional.logsigmoid(normal(device, 4, 2048, 8, 64, dtype=torch.float32)).requires_grad_()
    return lambda: _gradients(fused_recurrent_gla(q, k, v, gate)[0], [q, k, v, gate])


@program(FLA, "fla", "einops", needs_gpu=True)
def fla_retention(device: str, stack: ExitStack) -> Body:
    """Forward only."""
    from fla.ops.retention import chunk_retention

    q, k, v = _heads(device)
    return lambda: chunk_retention(q, k, v)[0]


@program(FLA, "fla", "einops", needs_gpu=True)
def fla_gated_delta_rule(device: str, stack: ExitStack) -> Body:
    """Forward only."""
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    q, k, v = _heads(device)
    k = torch.nn.functional.normalize(k.float(), dim=-1).to(k.dtype)
    gate = torch.nn.functional.logsigmoid(normal(device, 4, 2048, 8, dtype=torch.float32))
    beta = torch.sigmoid(normal(device, 4, 2048, 8))
    return lambda: chunk_gated_delta_rule(q, k, v, gate, beta)[0]


@program(CCE, "cut_cross_entropy", needs_gpu=True)
def cut_cross_entropy(device: str, stack: ExitStack) -> Body:
    """Forward and backward of the loss that never writes the logits."""
    from cut_cross_entropy import linear_cross_entropy

    x, weight = normal(device, 4096, _HIDDEN, grad=True), normal(device, _VOCABULARY, _HIDDEN, grad=True)
    targets = integers(device, _VOCABULARY, sized(device, 4096, 16))
    return lambda: torch.autograd.grad(linear_cross_entropy(x, weight, targets), [x, weight])
