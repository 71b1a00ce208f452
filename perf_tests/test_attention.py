"""Causal attention of a llama-7b layer: (batch, 32 heads, tokens, 128)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.attention import attention, attention_bytes, attention_flops, attention_reference
from perf_tests.closeness import assert_spread, rounding_deviation
from perf_tests.llama import HEAD_WIDTH, HEADS, Configuration, case

CASES = [
    case("fused-b1x128", launches=1, faster_than="unfused", by=3),
    case("fused-b8x512", launches=1, faster_than="unfused", by=13),
    case("fused-b32x2048", launches=1, faster_than="unfused", by=22),
    case("unfused-b1x128", launches=9),
    case("unfused-b8x512", launches=9),
    case("unfused-b32x2048", launches=58),
]


@pytest.mark.nsight
@pytest.mark.parametrize(("variant", "configuration"), CASES)
def test_attention(
    nsight: Callable[..., Any],
    variant: str,
    configuration: Configuration,
    dtype: torch.dtype,
    generator: torch.Generator,
    fresh_generator: torch.Generator,
    declare_work: Callable[..., None],
) -> None:
    size = (configuration.batch, HEADS, configuration.length, HEAD_WIDTH)
    declare_work(bytes=attention_bytes(*size, dtype.itemsize), flops=attention_flops(*size))
    place = {"device": generator.device, "dtype": dtype}
    q, k, v = (torch.randn(size, generator=generator, **place) for _ in range(3))

    out = nsight(attention[variant], q, k, v)

    sequence = int(torch.randint(size[0], (), generator=fresh_generator, device=generator.device))
    one = (q[sequence], k[sequence], v[sequence])
    # The probabilities are rounded, unfused also the scores before and after scaling.
    score_roundings = {"fused": 0, "unfused": 2}[variant]
    assert_spread(out[sequence], *spread_attention(*one, score_roundings))


def spread_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, score_roundings: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The truth y in fp32, and the standard deviation that roundings give each element of it.

    A probability p is off by its own rounding and by what its score s is off, and moves y by p (v - y) for the
    latter, since the others shrink where it grows: the variance of a relative rounding times
    sum(p^2 v^2) + n sum(p^2 s^2 (v - y)^2) for n roundings of s.

    Args:
        q: (heads, length, head width).
        k: like q.
        v: like q.
        score_roundings: how often a score is rounded.
    """
    expected, deviation = torch.empty_like(q, dtype=torch.float32), torch.empty_like(q, dtype=torch.float32)
    length, width = q.shape[-2:]
    is_later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    # Head by head: the scores of all in fp32 would take gigabytes.
    for head in range(q.shape[0]):
        y = expected[head] = attention_reference(q[head], k[head], v[head])
        scores = (q[head].float() @ k[head].float().T / width**0.5).masked_fill_(is_later, float("-inf"))
        weights = torch.softmax(scores, dim=-1).square()
        value = v[head].float()
        variance = weights @ value.square()
        weights *= scores.masked_fill_(is_later, 0.0).square()
        moved = weights @ value.square() - 2 * y * (weights @ value) + y.square() * weights.sum(-1, keepdim=True)
        variance += score_roundings * moved.clamp_(min=0)
        deviation[head] = rounding_deviation(q.dtype) * variance.sqrt()
    return expected, deviation
