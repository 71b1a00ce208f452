"""SwiGLU: y = silu(gate) * up, with silu(z) = z / (1 + exp(-z)).

For R rows of W elements of B bytes: reads 2*R*W and writes R*W elements, 3*R*W*B bytes in one launch.
`swiglu_unfused` writes silu(gate) and reads it again: 5*R*W*B bytes in 2 launches.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from kernels._checks import check_same, check_tensor
from kernels._triton import Flat, device_of, jit, load_flat, store_flat, tl

FLAT = Flat(block=1024, num_warps=4)
"""The fastest of benchmarks.sweep on an H200."""


def swiglu_reference(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """The truth in fp32.

    Args:
        gate: (..., width).
        up: like gate.
    """
    gate = gate.float()
    return gate / (1 + torch.exp(-gate)) * up.float()


def swiglu_unfused(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """SwiGLU as model code writes it."""
    return F.silu(gate) * up


@jit
def _swiglu_fused_kernel(
    gate_ptr: tl.tensor,
    up_ptr: tl.tensor,
    out_ptr: tl.tensor,
    elements: tl.tensor,
    BLOCK: tl.constexpr,
    EXACT: tl.constexpr,
) -> None:
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    gate = load_flat(gate_ptr, index, elements, EXACT)
    up = load_flat(up_ptr, index, elements, EXACT)
    store_flat(out_ptr, index, gate / (1 + tl.exp(-gate)) * up, elements, EXACT)


def swiglu_fused(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """SwiGLU in one launch; fp32 inside, rounded once.

    On the CPU it is `torch.nn.functional.silu` and an in-place product.

    Args:
        gate: (..., width), contiguous, bf16 or fp32.
        up: like gate.

    Raises:
        TypeError: an argument of an unsupported or other element type.
        ValueError: an unsupported shape, device or memory layout.
    """
    check_tensor("gate", gate)
    check_same("up", up, "gate", gate)
    if gate.device.type == "cpu":
        return F.silu(gate).mul_(up)
    return _launch(gate, up, torch.empty_like(gate))


def _launch(gate: torch.Tensor, up: torch.Tensor, out: torch.Tensor, flat: Flat = FLAT) -> torch.Tensor:
    elements = gate.numel()
    with device_of(gate):
        _swiglu_fused_kernel[(flat.count_programs(elements),)](
            gate,
            up,
            out,
            elements,
            BLOCK=flat.block,
            EXACT=flat.is_exact(elements),
            num_warps=flat.num_warps,
        )
    return out


swiglu: dict[str, Callable[..., torch.Tensor]] = {"fused": swiglu_fused, "unfused": swiglu_unfused}
"""The variants by the names that perf tests use."""


def swiglu_bytes(rows: int, width: int, itemsize: int) -> int:
    """Bytes that must move: gate and up read, y written."""
    return 3 * rows * width * itemsize


def swiglu_flops(rows: int, width: int) -> int:
    """Floating-point operations an element: exp, add, divide, multiply."""
    return 4 * rows * width
