"""Bias + GELU: y = gelu(x + bias), in the tanh form.

    gelu(z) = z/2 * (1 + tanh(u)) = z / (1 + exp(-2 u))        u = sqrt(2/pi) * (z + 0.044715 z^3)

For R rows of W elements of B bytes: reads R*W + W and writes R*W elements, 2*R*W*B bytes in one launch.
`bias_gelu_unfused` writes x + bias and reads it again: 4*R*W*B bytes in 2 launches.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from kernels._checks import check_shape, check_tensor
from kernels._triton import Flat, device_of, jit, load_flat, store_flat, tl

FLAT = Flat(block=2048, num_warps=4)
"""The fastest of benchmarks.sweep on an H200."""


def bias_gelu_reference(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The truth in fp32.

    Args:
        x: (..., width).
        bias: (width,).
    """
    z = x.float() + bias.float()
    return 0.5 * z * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (z + 0.044715 * z**3)))


def bias_gelu_unfused(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The addition, then GELU, as model code writes it."""
    return F.gelu(x + bias, approximate="tanh")


@jit
def _bias_gelu_fused_kernel(
    x_ptr: tl.tensor,
    bias_ptr: tl.tensor,
    out_ptr: tl.tensor,
    elements: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    EXACT: tl.constexpr,
) -> None:
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    bias = tl.load(bias_ptr + index % WIDTH).to(tl.float32)
    z = load_flat(x_ptr, index, elements, EXACT) + bias
    # 2 * sqrt(2 / pi): tanh written by exp, which the hardware has.
    twice = 1.5957691216057308 * (z + 0.044715 * z * z * z)
    store_flat(out_ptr, index, z / (1 + tl.exp(-twice)), elements, EXACT)


def bias_gelu_fused(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Bias + GELU in one launch; fp32 inside, rounded once.

    On the CPU it is an addition and an in-place GELU of torch.

    Args:
        x: (..., width), contiguous, bf16 or fp32.
        bias: (width,), of the type and on the device of x.

    Raises:
        TypeError: an argument of an unsupported or other element type.
        ValueError: an unsupported shape, device or memory layout.
    """
    check_tensor("x", x)
    check_shape("bias", bias, (x.shape[-1],), "x", x)
    if x.device.type == "cpu":
        out: torch.Tensor = torch.ops.aten.gelu_(x + bias, approximate="tanh")
        return out
    return _launch(x, bias, torch.empty_like(x))


def _launch(x: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, flat: Flat = FLAT) -> torch.Tensor:
    elements = x.numel()
    with device_of(x):
        _bias_gelu_fused_kernel[(flat.count_programs(elements),)](
            x,
            bias,
            out,
            elements,
            WIDTH=x.shape[-1],
            BLOCK=flat.block,
            EXACT=flat.is_exact(elements),
            num_warps=flat.num_warps,
        )
    return out


bias_gelu: dict[str, Callable[..., torch.Tensor]] = {"fused": bias_gelu_fused, "unfused": bias_gelu_unfused}
"""The variants by the names that perf tests use."""


def bias_gelu_bytes(rows: int, width: int, itemsize: int) -> int:
    """Bytes that must move: x and the bias read, y written."""
    return (2 * rows * width + width) * itemsize


def bias_gelu_flops(rows: int, width: int) -> int:
    """Floating-point operations an element: the bias, 5 for the polynomial, 3 for the rest."""
    return 9 * rows * width
