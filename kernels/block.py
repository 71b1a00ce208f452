"""A block of llama: h = x + attention(RMSNorm(x)), y = h + mlp(RMSNorm(h)), in training.

    attention: linear to q, k, v; rotary embedding of q and k; causal attention; linear
    mlp: linear to gate and up; SwiGLU; linear

`block_fused` is made of the fused operators of this folder and of torch's scaled_dot_product_attention, backward
too; `block_unfused` of the unfused ones, with autograd's backward. The matrix products are cuBLAS's in both. The
norm's weight is trained, so RMSNorm -> Linear with a folded weight has no place here.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from kernels import autograd
from kernels.attention import attention_flops, attention_reference, attention_unfused
from kernels.rms_norm import rms_norm_reference, rms_norm_unfused
from kernels.rotary import rotary_reference, rotary_unfused
from kernels.swiglu import swiglu_reference, swiglu_unfused

Pair = tuple[torch.Tensor, torch.Tensor]


class BlockWeights(torch.nn.Module):
    """Parameters of a block, normal around zero (a norm's around one), scaled to keep an activation's size.

    Args:
        width: of the residual stream.
        heads: of the attention; they share the width.
        mlp_width: of gate and up.
        generator: of the random values, on the device that the parameters are to be on.
        dtype: of the parameters.
    """

    def __init__(
        self, width: int, heads: int, mlp_width: int, *, generator: torch.Generator, dtype: torch.dtype
    ) -> None:
        super().__init__()
        place = {"generator": generator, "device": generator.device, "dtype": dtype}

        def make_linear(outputs: int, inputs: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.randn(outputs, inputs, **place) / inputs**0.5)

        def make_norm() -> torch.nn.Parameter:
            return torch.nn.Parameter(1 + 0.1 * torch.randn(width, **place))

        self.heads = heads
        self.attention_norm, self.mlp_norm = make_norm(), make_norm()
        self.query, self.key, self.value = (make_linear(width, width) for _ in range(3))
        self.output = make_linear(width, width)
        self.gate, self.up = make_linear(mlp_width, width), make_linear(mlp_width, width)
        self.down = make_linear(width, mlp_width)

    def make_float_copy(self) -> dict[str, torch.Tensor]:
        """The parameters in fp32 by their names, as leaves of their own: for `block_reference`."""
        return {name: value.detach().float().requires_grad_() for name, value in self.named_parameters()}


def block_reference(x: torch.Tensor, weights: dict[str, torch.Tensor], heads: int, tables: Pair) -> torch.Tensor:
    """The truth in fp32, with gradients by autograd.

    Args:
        x: (batch, length, width).
        weights: fp32 parameters by the names that BlockWeights has.
        heads: of the attention.
        tables: cosines and sines, (length, head width) each.
    """
    split = (*x.shape[:2], heads, x.shape[2] // heads)
    x = x.float()
    normed = rms_norm_reference(x, weights["attention_norm"])
    q, k, v = ((normed @ weights[name].T).view(split) for name in ("query", "key", "value"))
    q, k = rotary_reference(q, k, *tables)
    mixed = attention_reference(*(one.transpose(1, 2) for one in (q, k, v))).transpose(1, 2).reshape(x.shape)
    hidden = x + mixed @ weights["output"].T
    normed = rms_norm_reference(hidden, weights["mlp_norm"])
    inner = swiglu_reference(normed @ weights["gate"].T, normed @ weights["up"].T)
    return hidden + inner @ weights["down"].T


def block_unfused(x: torch.Tensor, weights: BlockWeights, tables: Pair) -> torch.Tensor:
    """The block as model code writes it.

    Args:
        x: (batch, length, width).
        weights: of the type of x.
        tables: cosines and sines, (length, head width) each.
    """
    normed = rms_norm_unfused(x, weights.attention_norm)
    q, k, v = _project(normed, weights)
    q, k = rotary_unfused(q, k, *tables)
    mixed = attention_unfused(*(one.transpose(1, 2) for one in (q, k, v)))
    hidden = x + F.linear(mixed.transpose(1, 2).reshape(x.shape), weights.output)
    normed = rms_norm_unfused(hidden, weights.mlp_norm)
    inner = swiglu_unfused(F.linear(normed, weights.gate), F.linear(normed, weights.up))
    return hidden + F.linear(inner, weights.down)


def block_fused(x: torch.Tensor, weights: BlockWeights, tables: Pair) -> torch.Tensor:
    """The block of fused operators, forward and backward.

    Args:
        x: (batch, length, width), contiguous, bf16 or fp32.
        weights: of the type and on the device of x.
        tables: cosines and sines, (length, head width) each, likewise.

    Raises:
        TypeError: an argument of an unsupported or other element type.
        ValueError: an unsupported shape, device or memory layout.
    """
    normed = autograd.rms_norm(x, weights.attention_norm)
    q, k, v = _project(normed, weights)
    q, k = autograd.rotary(q, k, *tables)
    # In memory the heads stay inside a token: no copy before or after, the attention takes strides.
    queries, keys, values = (one.transpose(1, 2) for one in (q, k, v))
    mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    attended = F.linear(mixed.transpose(1, 2).reshape(x.shape), weights.output)
    normed, hidden = autograd.add_rms_norm(attended, x, weights.mlp_norm)
    inner = autograd.swiglu(F.linear(normed, weights.gate), F.linear(normed, weights.up))
    return hidden + F.linear(inner, weights.down)


def _project(normed: torch.Tensor, weights: BlockWeights) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    split = (*normed.shape[:2], weights.heads, normed.shape[2] // weights.heads)
    q, k, v = (F.linear(normed, weight).view(split) for weight in (weights.query, weights.key, weights.value))
    return q, k, v


block: dict[str, Callable[[torch.Tensor, BlockWeights, Pair], torch.Tensor]] = {
    "fused": block_fused,
    "unfused": block_unfused,
}
"""The variants by the names that perf tests use."""


def block_step_bytes(rows: int, width: int, mlp_width: int, itemsize: int) -> int:
    """Bytes that a training step must move, however much of it is one kernel.

    A parameter is read forward and backward, its gradient written, and the optimizer moves 7 values of it; x and
    the gradient of y are read, y and the gradient of x written. What passes between operators is not counted.
    """
    return (10 * _count_parameters(width, mlp_width) + 4 * rows * width) * itemsize


def block_step_flops(batch: int, length: int, width: int, heads: int, mlp_width: int) -> int:
    """Floating-point operations of a step's matrix products: backward has two for each one forward."""
    products = 2 * batch * length * (_count_parameters(width, mlp_width) - 2 * width)
    return 3 * (products + attention_flops(batch, heads, length, width // heads))


def _count_parameters(width: int, mlp_width: int) -> int:
    return 4 * width * width + 3 * width * mlp_width + 2 * width
