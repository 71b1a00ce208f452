"""Every fused operator refuses what it does not serve, by the name of the argument, whichever argument it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernels.add_rms_norm import add_rms_norm_fused
from kernels.attention import attention_fused
from kernels.bias_gelu import bias_gelu_fused
from kernels.cross_entropy import cross_entropy_fused
from kernels.rms_norm import rms_norm_fused
from kernels.rms_norm_backward import rms_norm_backward_fused
from kernels.rms_norm_linear import fold_norm_weight, rms_norm_linear_fused
from kernels.rotary import rotary_fused
from kernels.softmax import softmax_fused
from kernels.swiglu import swiglu_fused
from kernels.swiglu_backward import swiglu_backward_fused

MATRIX, ROW, HEADS, TABLE = (4, 8), (8,), (2, 4, 3, 8), (4, 8)

OPERATORS: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, ...]]]] = {
    "rms_norm": (rms_norm_fused, {"x": MATRIX, "weight": ROW}),
    "rms_norm_backward": (rms_norm_backward_fused, {"gradient": MATRIX, "x": MATRIX, "weight": ROW}),
    "add_rms_norm": (add_rms_norm_fused, {"x": MATRIX, "residual": MATRIX, "weight": ROW}),
    "rms_norm_linear": (rms_norm_linear_fused, {"x": MATRIX, "folded_weight": (6, 8)}),
    "fold_norm_weight": (fold_norm_weight, {"norm_weight": ROW, "linear_weight": (6, 8)}),
    "swiglu": (swiglu_fused, {"gate": MATRIX, "up": MATRIX}),
    "swiglu_backward": (swiglu_backward_fused, {"gradient": MATRIX, "gate": MATRIX, "up": MATRIX}),
    "bias_gelu": (bias_gelu_fused, {"x": MATRIX, "bias": ROW}),
    "rotary": (rotary_fused, {"q": HEADS, "k": HEADS, "cos": TABLE, "sin": TABLE}),
    "softmax": (softmax_fused, {"x": MATRIX}),
    "attention": (attention_fused, {"q": HEADS, "k": HEADS, "v": HEADS}),
    "cross_entropy": (cross_entropy_fused, {"logits": MATRIX, "targets": (4,)}),
}
ARGUMENTS = [
    pytest.param(operator, argument, id=f"{operator}-{argument}")
    for operator, (_, shapes) in OPERATORS.items()
    for argument in shapes
]


def make(operator: str) -> dict[str, Any]:
    """Arguments that the operator serves."""
    shapes = OPERATORS[operator][1]
    return {
        name: torch.zeros(shape, dtype=torch.int64) if name == "targets" else torch.ones(shape)
        for name, shape in shapes.items()
    }


def make_strided(tensor: torch.Tensor) -> torch.Tensor:
    """An equal tensor with a gap behind each element."""
    return torch.stack((tensor, tensor), dim=-1)[..., 0]


# What each spoils, how, and what the message must say behind the argument's name.
SPOILERS: dict[str, tuple[Callable[[torch.Tensor], Any], type[Exception], str]] = {
    "dtype": (lambda tensor: tensor.to(torch.float16), TypeError, "is torch.float16"),
    "integer": (lambda tensor: tensor.to(torch.int32), TypeError, "is torch.int32"),
    "strides": (make_strided, ValueError, "is not contiguous"),
    "device": (lambda tensor: tensor.to("meta"), ValueError, "is on meta"),
    "shape": (lambda tensor: tensor.new_zeros([2 * size - 1 for size in tensor.shape]), ValueError, "has shape"),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_what_is_served_is_served(operator: str) -> None:
    OPERATORS[operator][0](**make(operator))


@pytest.mark.parametrize("spoiler", SPOILERS)
@pytest.mark.parametrize(("operator", "argument"), ARGUMENTS)
def test_an_argument_that_is_not_served_is_named(operator: str, argument: str, spoiler: str) -> None:
    spoil, error, message = SPOILERS[spoiler]
    arguments = make(operator)
    arguments[argument] = spoil(arguments[argument])
    if spoiler == "shape" and len(arguments) == 1:
        pytest.skip("an operator of one argument has nothing that its shape must match")

    with pytest.raises(error) as refusal:
        OPERATORS[operator][0](**arguments)

    named = str(refusal.value)
    if spoiler == "shape":
        # Of two that do not match either may be named.
        assert any(named.startswith(f"{name} {message}") for name in arguments)
    else:
        assert named.startswith(f"{argument} {message}")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("operator", "argument"), [case for case in ARGUMENTS if case.values[0] != "softmax"])
def test_an_argument_on_another_device_than_the_others_is_refused(operator: str, argument: str) -> None:
    arguments = make(operator)
    arguments[argument] = arguments[argument].cuda()

    with pytest.raises(ValueError, match=r"is on (cuda:0|cpu), (cuda:0|cpu) is needed"):
        OPERATORS[operator][0](**arguments)
