"""Programs that are limited by one thing each, and the same programs with the remedy applied.

``python bound_programs.py NAME OUTPUT`` records the program NAME with torch.profiler into OUTPUT, a .json.gz file.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

STEPS = 30


def launch_bound() -> Callable[[], None]:
    """Hundreds of kernels that take less time than their launches."""
    x = torch.ones(64, device="cuda")

    def step() -> None:
        for _ in range(200):
            x.add_(1).mul_(0.5)

    return step


def launch_mended() -> Callable[[], None]:
    """The same kernels in a CUDA graph over more data, so that each takes longer than its start."""
    x = torch.ones(1 << 24, device="cuda")
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x.add_(1).mul_(0.5)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(20):
            x.add_(1).mul_(0.5)
    return graph.replay


def copy_bound() -> Callable[[], None]:
    """A large batch from pinned memory for each small product."""
    host = torch.empty(1 << 26, pin_memory=True)
    weight = torch.ones(256, 256, device="cuda")

    def step() -> None:
        batch = host.to("cuda", non_blocking=True)
        weight.mm(batch[: 256 * 256].view(256, 256))

    return step


def copy_mended() -> Callable[[], None]:
    """The batch stays on the device, and the product is a large one."""
    return compute_bound()


def memory_bound() -> Callable[[], None]:
    """Elementwise kernels over more data than the caches hold."""
    x = torch.ones(1 << 28, device="cuda")

    def step() -> None:
        x.add_(1)
        x.mul_(0.5)

    return step


def compute_bound() -> Callable[[], None]:
    """Large products in bf16."""
    a = torch.ones(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        a @ a

    return step


def sync_bound() -> Callable[[], None]:
    """A kernel of some tens of microseconds, and a wait for its result."""
    x = torch.ones(1 << 20, device="cuda")

    def step() -> None:
        for _ in range(50):
            x.add_(1)[0].item()

    return step


def sync_mended() -> Callable[[], None]:
    """The same kernels over more data, with one wait at the end of the step."""
    x = torch.ones(1 << 28, device="cuda")

    def step() -> None:
        for _ in range(50):
            x.add_(1)
        x[0].item()

    return step


def data_bound() -> Callable[[], None]:
    """A host that takes 20 ms for each batch."""
    compute = compute_bound()

    def step() -> None:
        time.sleep(0.02)
        compute()
        torch.cuda.synchronize()

    return step


def data_mended() -> Callable[[], None]:
    """The batch is there when it is needed."""
    return compute_bound()


def allocation_bound() -> Callable[[], None]:
    """Memory that goes back to the driver after each kernel."""

    def step() -> None:
        x = torch.empty(1 << 26, device="cuda").fill_(1)
        del x
        torch.cuda.empty_cache()

    return step


def allocation_mended() -> Callable[[], None]:
    """The allocator keeps the memory."""

    def step() -> None:
        torch.empty(1 << 26, device="cuda").fill_(1)

    return step


PROGRAMS = {
    function.__name__: function
    for function in (
        launch_bound, launch_mended, copy_bound, copy_mended, memory_bound, compute_bound, sync_bound, sync_mended,
        data_bound, data_mended, allocation_bound, allocation_mended,
    )
}  # fmt: skip


def main(name: str, output: str) -> None:
    """Warms a program up and records its steps."""
    step = PROGRAMS[name]()
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(STEPS):
            with torch.profiler.record_function("step"):
                step()
        torch.cuda.synchronize()
    profiler.export_chrome_trace(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
