"""How far a result may lie from the fp32 truth, argued from the roundings that the computation makes."""

from __future__ import annotations

import torch

_CHECKED_ROWS = 4096

# Half a unit in the last place, relative: the most that one rounding changes a value.
_ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}

# What fp32 sums over some thousand elements, exponentials and reciprocal roots leave, relative.
_FP32_NOISE = 2e-5


def sample_rows(rows: int, generator: torch.Generator) -> torch.Tensor:
    """Numbers of the rows to check: all, or a fresh random sample where fp32 copies would grow too large."""
    if rows <= _CHECKED_ROWS:
        return torch.arange(rows, device=generator.device)
    chosen = torch.randint(rows, (_CHECKED_ROWS // 8,), generator=generator, device=generator.device)
    # The first and the last row are where grids that are too small or too large show.
    chosen[0], chosen[1] = 0, rows - 1
    return chosen


def assert_rounded(result: torch.Tensor, expected: torch.Tensor, roundings: int = 1, *, scale: float = 1) -> None:
    """Demand each element to equal the truth after at most `roundings` roundings to the type of `result`.

    For operators that work on each row by itself: every intermediate is fp32 except where the type of the
    result is rounded to, and each such rounding changes a value by at most half a unit in the last place.

    Args:
        result: what the operator gave, bf16 or fp32.
        expected: the fp32 truth.
        roundings: how many roundings lie between the inputs and the result.
        scale: what brings typical values to the order of one, below which errors are compared absolutely.
    """
    tolerance = roundings * _ROUNDING[result.dtype] * 1.01 + _FP32_NOISE
    assert torch.isfinite(result).all(), "the result has elements that are not finite"
    torch.testing.assert_close(result.float() * scale, expected * scale, rtol=tolerance, atol=_FP32_NOISE)


def assert_product(result: torch.Tensor, expected: torch.Tensor, roundings: int = 2) -> None:
    """Demand a matrix product to equal the truth up to the roundings of its factors and of itself.

    The roundings of the factors are independent, so over a long sum their errors add up like a random walk:
    relative to the norm of the result they are as large as one rounding is relative to a value, whatever the
    length. The norm is held to that; a single element, which may be small by cancellation, to eight times as
    much of the typical element of its row (of 10^8 normal values none lies beyond 6 standard deviations). Rows
    differ: the first of a causal attention average over few values and are larger than the last.

    Args:
        result: what the operator gave, bf16 or fp32.
        expected: the fp32 truth.
        roundings: how many roundings lie between the inputs and the result.
    """
    bound = (roundings**0.5 / 3**0.5) * _ROUNDING[result.dtype] + _FP32_NOISE
    assert torch.isfinite(result).all(), "the result has elements that are not finite"
    difference = result.float() - expected
    in_norm = float(difference.square().mean().sqrt() / expected.square().mean().sqrt())
    assert in_norm <= bound, f"the result is off by {in_norm:.2e} of its norm, {bound:.2e} is allowed"
    typical = expected.square().mean(-1, keepdim=True).sqrt()
    worst = float(((difference.abs() - _ROUNDING[result.dtype] * expected.abs()) / typical).max())
    assert worst <= 8 * bound, f"an element is off by {worst:.2e} of the typical, {8 * bound:.2e} is allowed"


def relative_error(result: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the difference over the norm of the truth; nan where the result is not finite."""
    return float((result.detach().float() - expected.detach()).norm() / expected.detach().norm())
