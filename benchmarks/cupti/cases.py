"""The cases that all collectors measure: one launch, a thousand, a graph, copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernels._triton import jit, tl

Body = Callable[[], object]

LONG_CHAIN = 1000
GRAPH_NODES = 20
_BLOCK = 1024


@jit
def _cupti_scale_kernel(x_ptr: tl.tensor, y_ptr: tl.tensor, n_elements: tl.tensor, BLOCK: tl.constexpr) -> None:
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n_elements
    tl.store(y_ptr + offsets, 2.0 * tl.load(x_ptr + offsets, mask=inside), mask=inside)


@dataclass(frozen=True, slots=True)
class CollectorCase:
    """One case.

    Attributes:
        name: its id.
        build: from the device to the body of a round.
        launches: kernels, copies and sets of a round; None where the library decides.
        metric: the duration that the plugin gates.
        needs_gpu: whether no CPU can run it.
    """

    name: str
    build: Callable[[str], Body]
    launches: int | None
    metric: str = "kernel"
    needs_gpu: bool = False


def _elements(device: str, count: int) -> int:
    return count if device == "cuda" else min(count, 1 << 10)


def tiny(device: str) -> Body:
    x = torch.zeros(1024, device=device)
    return lambda: x.add_(1)


def softmax(device: str) -> Body:
    x = torch.rand(_elements(device, 8192), 4096, device=device)
    y = torch.empty_like(x)
    return lambda: torch.softmax(x, 1, out=y)


def matmul(device: str) -> Body:
    side = _elements(device, 4096) if device == "cuda" else 64
    x = torch.rand(side, side, device=device, dtype=torch.bfloat16)
    y = torch.empty_like(x)
    return lambda: torch.mm(x, x, out=y)


def written_in_triton(device: str) -> Body:
    x = torch.rand(_elements(device, 1 << 24), device=device)
    y = torch.empty_like(x)
    return lambda: _cupti_scale_kernel[(-(-x.numel() // _BLOCK),)](x, y, x.numel(), BLOCK=_BLOCK)


def long_chain(device: str) -> Body:
    x = torch.zeros(1 << 14, device=device)

    def body() -> None:
        for _ in range(LONG_CHAIN):
            x.add_(1)

    return body


def graph(device: str) -> Body:
    x = torch.zeros(1 << 16, device=device)
    x.add_(1)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(GRAPH_NODES):
            x.add_(1)

    def body() -> torch.Tensor:
        captured.replay()
        return x

    return body


def copies(device: str) -> Body:
    x = torch.rand(_elements(device, 1 << 22), device=device)
    y = torch.empty_like(x)

    def body() -> None:
        y.copy_(x)
        x.zero_()

    return body


CASES = (
    CollectorCase("tiny", tiny, 1),
    CollectorCase("softmax", softmax, 1),
    CollectorCase("matmul", matmul, None),
    CollectorCase("triton", written_in_triton, 1, needs_gpu=True),
    CollectorCase("chain", long_chain, LONG_CHAIN),
    CollectorCase("graph", graph, GRAPH_NODES, needs_gpu=True),
    CollectorCase("copies", copies, 2, metric="copy", needs_gpu=True),
)
