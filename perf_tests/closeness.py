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


def assert_rounded(
    result: torch.Tensor,
    expected: torch.Tensor,
    roundings: int = 1,
    *,
    scale: float = 1,
    passed_on: torch.Tensor | float = 0.0,
) -> None:
    """Demand each element to equal the truth after at most `roundings` roundings to the type of `result`.

    For operators that work on each row by itself: every intermediate is fp32 except where the type of the
    result is rounded to, and each such rounding changes a value by at most half a unit in the last place.

    Args:
        result: what the operator gave, bf16 or fp32.
        expected: the fp32 truth.
        roundings: how many roundings lie between the inputs and the result.
        scale: what brings typical values to the order of one, below which errors are compared absolutely.
        passed_on: an intermediate that is rounded too, times the most that its change changes the result: for
            intermediates that are larger than the result.
    """
    rounding = _ROUNDING[result.dtype] * 1.01
    assert torch.isfinite(result).all(), "the result has elements that are not finite"
    difference = (result.float() - expected).abs() * scale
    size = roundings * expected.abs() + passed_on
    allowed = (rounding * size + _FP32_NOISE * expected.abs()) * scale + _FP32_NOISE
    worst = int((difference - allowed).argmax())
    assert (difference <= allowed).all(), (
        f"element {worst} is {float(result.flatten()[worst]):.6g}, not {float(expected.flatten()[worst]):.6g}: "
        f"off by {float((difference / allowed).flatten()[worst]):.2f} times what {roundings} roundings explain"
    )


def assert_spread(result: torch.Tensor, expected: torch.Tensor, deviation: torch.Tensor) -> None:
    """Demand of sums over rounded terms that each element lies as near to the truth as chance would have it.

    Roundings are independent and each changes a value evenly between minus and plus half a unit in the last place,
    so what they change of an element has at most the deviation given, whatever the number of terms: more than eight
    of these occur once in 10^13 elements, by the bound that holds for sums of bounded terms. To that comes the
    rounding of the result. The norm of all errors is held to one deviation.

    Args:
        result: what the operator gave, bf16 or fp32.
        expected: the fp32 truth.
        deviation: of each element, like expected, from `rounding_deviation` of each term.
    """
    assert torch.isfinite(result).all(), "the result has elements that are not finite"
    difference = (result.float() - expected).abs()
    own = _ROUNDING[result.dtype] * expected.abs() + _FP32_NOISE
    in_norm = float(difference.square().mean().sqrt())
    bound = float((deviation.square() + own.square() / 3).mean().sqrt()) + _FP32_NOISE
    assert in_norm <= bound, f"the result is off by {in_norm:.2e} on average, {bound:.2e} is allowed"
    worst = float(((difference - own * 1.01) / (deviation + _FP32_NOISE)).max())
    assert worst <= 8, f"an element is off by {worst:.1f} standard deviations of its roundings, 8 are allowed"


def rounding_deviation(dtype: torch.dtype) -> float:
    """Standard deviation of one rounding, relative to the value, at most."""
    return _ROUNDING[dtype] / 3**0.5


def assert_product(result: torch.Tensor, expected: torch.Tensor, roundings: int = 2) -> None:
    """Demand a matrix product to equal the truth up to the roundings of its factors and of itself.

    The roundings of the factors are independent, so over a long sum their errors add up like a random walk:
    relative to the norm of the result they are as large as one rounding is relative to a value, whatever the
    length. The norm is held to that; a single element, which may be small by cancellation, to eight times as
    much of the typical element of its row (of 10^8 normal values none lies beyond 6 standard deviations). Rows
    differ: the first of a causal attention average over few values and are larger than the last. The norm of few
    errors is itself random, by about one part in the square root of their number: three of these are let pass.

    Args:
        result: what the operator gave, bf16 or fp32.
        expected: the fp32 truth.
        roundings: how many roundings lie between the inputs and the result.
    """
    bound = (roundings**0.5 / 3**0.5) * _ROUNDING[result.dtype] + _FP32_NOISE
    assert torch.isfinite(result).all(), "the result has elements that are not finite"
    difference = result.float() - expected
    in_norm = float(difference.square().mean().sqrt() / expected.square().mean().sqrt())
    most = bound * (1 + 3 / max(1, difference.numel()) ** 0.5)
    assert in_norm <= most, f"the result is off by {in_norm:.2e} of its norm, {most:.2e} is allowed"
    typical = expected.square().mean(-1, keepdim=True).sqrt()
    worst = float(((difference.abs() - _ROUNDING[result.dtype] * expected.abs()) / typical).max())
    assert worst <= 8 * bound, f"an element is off by {worst:.2e} of the typical, {8 * bound:.2e} is allowed"


def relative_error(result: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the difference over the norm of the truth; nan where the result is not finite."""
    return float((result.detach().float() - expected.detach()).norm() / expected.detach().norm())
