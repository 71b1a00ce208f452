"""What the tests on a GPU measure: work whose launches are known beforehand.

Each function takes `part`, which names a part of the work (`nsight.range`, or something idle), prepares, and
returns the body of a round. Beside each stands why it launches what `sizes.EXPECTED` says.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
import triton
import triton.language as tl

from tests.gpu.programs.sizes import BLOCK, CHAIN, DOWN_BYTES, LENGTH, SPIN_CYCLES, UP_BYTES

Part = Callable[[str], AbstractContextManager[None]]
Body = Callable[[], object]


@triton.jit
def _scale_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = offsets < n_elements
    tl.store(y_ptr + offsets, 2.0 * tl.load(x_ptr + offsets, mask=inside), mask=inside)


def scale(x: torch.Tensor, block: int = BLOCK) -> torch.Tensor:
    """2 x by one launch of the kernel above."""
    y = torch.empty_like(x)
    _scale_kernel[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), BLOCK_SIZE=block, num_warps=4)
    return y


def backward(part: Part) -> Body:
    """tanh has one kernel, and so has its derivative; a gradient that nobody else holds is moved, not copied."""
    x = torch.rand(LENGTH, device="cuda", requires_grad=True)
    upstream = torch.ones_like(x)

    def body() -> None:
        x.grad = None
        with part("forward"):
            y = x
            for _ in range(CHAIN):
                y = torch.tanh(y)
        with part("backward"):
            y.backward(upstream)

    return body


def thread(part: Part) -> Body:
    """An addition in place is one kernel, whichever thread asks for it."""
    x = torch.zeros(LENGTH, device="cuda")

    def add() -> None:
        for _ in range(3):
            x.add_(1.0)

    def body() -> None:
        helper = threading.Thread(target=add)
        helper.start()
        helper.join()

    return body


def graph(part: Part) -> Body:
    """A captured operation in place is one node, and a replay runs every node once."""
    x = torch.zeros(LENGTH, device="cuda")
    x.add_(1.0)
    x.mul_(0.5)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        with part("additions"):
            for _ in range(5):
                x.add_(1.0)
        with part("products"):
            for _ in range(3):
                x.mul_(0.5)

    def body() -> torch.Tensor:
        captured.replay()
        # The graph holds x's address only.
        return x

    return body


def streams(part: Part) -> Body:
    """Two kernels that only spin, on a stream each: nothing keeps them from running at once."""
    both = [torch.cuda.Stream(), torch.cuda.Stream()]

    def body() -> None:
        current = torch.cuda.current_stream()
        for stream in both:
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                torch.cuda._sleep(SPIN_CYCLES)
        for stream in both:
            current.wait_stream(stream)

    return body


def written_in_triton(part: Part) -> Body:
    """One launch; torch.empty_like launches nothing."""
    x = torch.rand(LENGTH, device="cuda")
    return lambda: scale(x)


def compiled(part: Part) -> Body:
    """Pointwise operations on one tensor are fused into one kernel."""
    x = torch.rand(LENGTH, device="cuda")
    fused = torch.compile(lambda t: torch.sin(t) * torch.cos(t) + t)
    return lambda: fused(x)


def copies(part: Part) -> Body:
    """Pinned memory is copied as it is: one copy up, one down, and no kernel."""
    host_up = torch.ones(UP_BYTES, dtype=torch.uint8).pin_memory()
    host_down = torch.empty(DOWN_BYTES, dtype=torch.uint8).pin_memory()
    device = torch.zeros(UP_BYTES, dtype=torch.uint8, device="cuda")

    def body() -> None:
        device.copy_(host_up, non_blocking=True)
        host_down.copy_(device[:DOWN_BYTES], non_blocking=True)

    return body


BODIES: dict[str, Callable[[Part], Body]] = {
    body.__name__: body for body in (backward, thread, graph, streams, written_in_triton, compiled, copies)
}
