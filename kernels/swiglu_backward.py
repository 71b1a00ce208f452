"""SwiGLU, backward: from g = dL/dy the gradients of gate and up, for y = silu(gate) * up.

    s = 1 / (1 + exp(-gate))
    dgate = g * up * s * (1 + gate * (1 - s))        dup = g * gate * s

For R rows of W elements of B bytes: reads 3*R*W and writes 2*R*W elements, 5*R*W*B bytes in one launch. s is
computed again, not kept from the forward pass: gate is read anyway. `swiglu_backward_unfused` takes 4 launches and
moves 11*R*W*B bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from kernels._checks import check_same, check_tensor
from kernels._triton import Flat, device_of, jit, load_flat, store_flat, tl

Pair = tuple[torch.Tensor, torch.Tensor]

FLAT = Flat(block=1024, num_warps=8)
"""The fastest of benchmarks.sweep on an H200."""


def swiglu_backward_reference(gradient: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Pair:
    """The truth in fp32: (dgate, dup).

    Args:
        gradient: of the result of SwiGLU, like gate.
        gate: (..., width).
        up: like gate.
    """
    gradient, gate, up = gradient.float(), gate.float(), up.float()
    opening = 1 / (1 + torch.exp(-gate))
    return gradient * up * opening * (1 + gate * (1 - opening)), gradient * gate * opening


def swiglu_backward_unfused(gradient: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Pair:
    """The gradients operator by operator, as autograd finds them behind `F.silu(gate) * up`."""
    gate_gradient: torch.Tensor = torch.ops.aten.silu_backward(gradient * up, gate)
    return gate_gradient, gradient * F.silu(gate)


@jit
def _swiglu_backward_fused_kernel(
    gradient_ptr: tl.tensor,
    gate_ptr: tl.tensor,
    up_ptr: tl.tensor,
    gate_gradient_ptr: tl.tensor,
    up_gradient_ptr: tl.tensor,
    elements: tl.tensor,
    BLOCK: tl.constexpr,
    EXACT: tl.constexpr,
) -> None:
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    gradient = load_flat(gradient_ptr, index, elements, EXACT)
    gate = load_flat(gate_ptr, index, elements, EXACT)
    up = load_flat(up_ptr, index, elements, EXACT)
    opening = 1 / (1 + tl.exp(-gate))
    opened = gradient * opening
    store_flat(gate_gradient_ptr, index, opened * up * (1 + gate * (1 - opening)), elements, EXACT)
    store_flat(up_gradient_ptr, index, opened * gate, elements, EXACT)


def swiglu_backward_fused(gradient: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Pair:
    """(dgate, dup) in one launch; fp32 inside, rounded once.

    On the CPU it is torch's backward of `torch.nn.functional.silu` and in-place products.

    Args:
        gradient: of the result of SwiGLU, like gate.
        gate: (..., width), contiguous, bf16 or fp32.
        up: like gate.

    Raises:
        TypeError: an argument of an unsupported or other element type.
        ValueError: an unsupported shape, device or memory layout.
    """
    check_tensor("gate", gate)
    check_same("gradient", gradient, "gate", gate)
    check_same("up", up, "gate", gate)
    if gate.device.type == "cpu":
        gate_gradient: torch.Tensor = torch.ops.aten.silu_backward(gradient * up, gate)
        return gate_gradient, F.silu(gate).mul_(gradient)
    return _launch(gradient, gate, up, (torch.empty_like(gate), torch.empty_like(up)))


def _launch(gradient: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, outs: Pair, flat: Flat = FLAT) -> Pair:
    elements = gate.numel()
    with device_of(gate):
        _swiglu_backward_fused_kernel[(flat.count_programs(elements),)](
            gradient,
            gate,
            up,
            *outs,
            elements,
            BLOCK=flat.block,
            EXACT=flat.is_exact(elements),
            num_warps=flat.num_warps,
        )
    return outs


swiglu_backward: dict[str, Callable[..., Pair]] = {
    "fused": swiglu_backward_fused,
    "unfused": swiglu_backward_unfused,
}
"""The variants by the names that perf tests use."""


def swiglu_backward_bytes(rows: int, width: int, itemsize: int) -> int:
    """Bytes that must move: the gradient, gate and up read, both gradients written."""
    return 5 * rows * width * itemsize


def swiglu_backward_flops(rows: int, width: int) -> int:
    """Floating-point operations an element: 3 for s, 3 for its slope, 4 for the products."""
    return 10 * rows * width
