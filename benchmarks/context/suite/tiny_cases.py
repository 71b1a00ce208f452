"""Cases of one launch that takes 1 to 5 us on a GPU, each of another kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernels._triton import jit, tl

Body = Callable[[], object]

ELEMENTS = 1024
"""4 KiB of float32: its memory traffic takes no time, so the launch's fixed costs are what is measured."""

_BLOCK = 256
_SIDE = 128


@jit
def _tiny_scale_kernel(x_ptr: tl.tensor, y_ptr: tl.tensor, n_elements: tl.tensor, BLOCK: tl.constexpr) -> None:
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n_elements
    tl.store(y_ptr + offsets, 2.0 * tl.load(x_ptr + offsets, mask=inside), mask=inside)


@dataclass(frozen=True, slots=True)
class TinyCase:
    """One tiny case.

    Attributes:
        name: part of the case's id.
        build: from the device to a body that launches once and allocates nothing.
        metric: the duration that is gated: "kernel", or "copy" for memory copies and sets.
        needs_gpu: whether no CPU can run it.
    """

    name: str
    build: Callable[[str], Body]
    metric: str = "kernel"
    needs_gpu: bool = False


def add(device: str) -> Body:
    """Adds one to 1024 numbers in place."""
    x = torch.zeros(ELEMENTS, device=device)
    return lambda: x.add_(1)


def multiply(device: str) -> Body:
    """Writes 1024 products elsewhere."""
    x, y = torch.ones(ELEMENTS, device=device), torch.empty(ELEMENTS, device=device)
    return lambda: torch.mul(x, 2.0, out=y)


def convert(device: str) -> Body:
    """Copies 1024 numbers to another type: a kernel, as no memory copy converts."""
    x, y = torch.ones(ELEMENTS, device=device), torch.empty(ELEMENTS, device=device, dtype=torch.bfloat16)
    return lambda: y.copy_(x)


def reduce(device: str) -> Body:
    """Sums 16 rows of 256 numbers."""
    x, y = torch.ones(16, 256, device=device), torch.empty(16, device=device)
    return lambda: torch.sum(x, 1, out=y)


def softmax(device: str) -> Body:
    """Softmax of 16 rows of 64 numbers."""
    x, y = torch.ones(16, 64, device=device), torch.empty(16, 64, device=device)
    return lambda: torch.softmax(x, 1, out=y)


def gather(device: str) -> Body:
    """Takes 32 rows of 32 numbers by index."""
    x, y = torch.ones(256, 32, device=device), torch.empty(32, 32, device=device)
    index = torch.arange(0, 256, 8, device=device)
    return lambda: torch.index_select(x, 0, index, out=y)


def written_in_triton(device: str) -> Body:
    """Scales 1024 numbers by a Triton kernel."""
    x, y = torch.ones(ELEMENTS, device=device), torch.empty(ELEMENTS, device=device)
    return lambda: _tiny_scale_kernel[(ELEMENTS // _BLOCK,)](x, y, ELEMENTS, BLOCK=_BLOCK)


def matmul(device: str) -> Body:
    """Multiplies two matrices of 128 by 128."""
    dtype = torch.bfloat16
    x, y = (torch.ones(_SIDE, _SIDE, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty(_SIDE, _SIDE, device=device, dtype=dtype)
    return lambda: torch.mm(x, y, out=out)


def copy(device: str) -> Body:
    """Copies 4 KiB within the device."""
    x, y = torch.ones(ELEMENTS, device=device), torch.empty(ELEMENTS, device=device)
    return lambda: y.copy_(x)


def memset(device: str) -> Body:
    """Sets 4 KiB to zero."""
    x = torch.ones(ELEMENTS, device=device)

    def body() -> object:
        return x.zero_()

    return body


CASES = (
    TinyCase("add", add),
    TinyCase("multiply", multiply),
    TinyCase("convert", convert),
    TinyCase("reduce", reduce),
    TinyCase("softmax", softmax),
    TinyCase("gather", gather),
    TinyCase("triton", written_in_triton, needs_gpu=True),
    TinyCase("matmul", matmul),
    TinyCase("copy", copy, metric="copy", needs_gpu=True),
    TinyCase("memset", memset, metric="copy", needs_gpu=True),
)
