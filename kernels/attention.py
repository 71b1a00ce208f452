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

_MOST_SCORES = 2**29
"""Scores of a step of the unfused path: in fp32 2^31 bytes, above which torch cuts an elementwise launch in two."""


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
    """Attention as model code writes it: scores in memory, softmax in fp32.

    One step takes as many sequences as have at most 2^29 scores together (or one sequence, if that has more); most
    batches take one step. A step holds 8 bytes a score at its peak, the fp32 scores and their softmax: 4.3 GB. On a
    GPU it is 7 launches in bf16, after 2 for the mask. More than one step has no gradient.

    Args:
        q: (batch, heads, length, head width).
        k: like q.
        v: like q.

    Raises:
        RuntimeError: more than one step is needed and an argument requires a gradient.
    """
    length = q.shape[-2]
    is_later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    step = max(1, _MOST_SCORES // (q.shape[1:-1].numel() * length))
    if step >= q.shape[0]:
        return _probabilities(q, k, is_later) @ v
    out = torch.empty_like(v, memory_format=torch.contiguous_format)
    for first in range(0, q.shape[0], step):
        some = slice(first, first + step)
        probabilities = _probabilities(q[some], k[some], is_later)
        torch.bmm(probabilities.flatten(0, -3), v[some].flatten(0, -3), out=out[some].flatten(0, -3))
        # Before the next step's are made.
        del probabilities
    return out


def _probabilities(q: torch.Tensor, k: torch.Tensor, is_later: torch.Tensor) -> torch.Tensor:
    # One expression, without names: each result is freed as soon as the next is there.
    return torch.softmax(
        (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(is_later, float("-inf")).float(), dim=-1
    ).to(q.dtype)


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
