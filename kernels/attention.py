"""Causal attention: y = softmax(mask(q k^T / sqrt(D))) v for every batch and head.

For B*H heads over L tokens of D elements of b bytes, the fused path (torch's scaled_dot_product_attention: flash
attention on a GPU) reads q, k, v and writes y: 4*B*H*L*D*b bytes, 2*B*H*L^2*D operations (half of all pairs). The
unfused path also moves the B*H*L^2 scores, six times or more, and multiplies the masked half too.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from kernels._checks import check_same, check_tensor


def attention_reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The truth in fp32.

    Args:
        q: (..., length, head width).
        k: like q.
        v: like q.
    """
    length, width = q.shape[-2:]
    scores = q.float() @ k.float().transpose(-1, -2) / width**0.5
    is_later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    return torch.softmax(scores.masked_fill(is_later, float("-inf")), dim=-1) @ v.float()


def attention_unfused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention as model code writes it: scores in memory, softmax in fp32."""
    length, width = q.shape[-2:]
    # Before the scores: the place that the first of them leaves must stay whole, or the next do not fit in it.
    is_later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    scaled = q @ k.transpose(-1, -2) * width**-0.5
    masked = scaled.masked_fill(is_later, float("-inf"))
    scores = masked.float()
    # Both at once, after the fp32 copy has its place: together they leave room for the softmax, alone they do not.
    del scaled, masked
    scores = torch.softmax(scores, dim=-1)
    return scores.to(q.dtype) @ v


def attention_fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention by `torch.nn.functional.scaled_dot_product_attention`, on a GPU and on the CPU.

    Args:
        q: (batch, heads, length, head width), contiguous, bf16 or fp32.
        k: like q.
        v: like q.

    Raises:
        TypeError: an argument of an unsupported or other element type.
        ValueError: an unsupported shape, device or memory layout.
    """
    check_tensor("q", q, dimensions=4)
    check_same("k", k, "q", q)
    check_same("v", v, "q", q)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


attention: dict[str, Callable[..., torch.Tensor]] = {"fused": attention_fused, "unfused": attention_unfused}
"""The variants by the names that perf tests use."""


def attention_bytes(batch: int, heads: int, length: int, head_width: int, itemsize: int) -> int:
    """Bytes that must move: q, k, v read, y written."""
    return 4 * batch * heads * length * head_width * itemsize


def attention_flops(batch: int, heads: int, length: int, head_width: int) -> int:
    """Floating-point operations of both products, over the pairs that the mask leaves."""
    return 2 * batch * heads * length * (length + 1) * head_width
