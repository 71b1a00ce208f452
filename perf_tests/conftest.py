"""On what the perf tests run: a CUDA device if there is one, else what a CPU does in reasonable time."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

# Before torch reads it: without it a small block left in a large one makes the allocator take a second large one.
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import torch

MOST_GPU_BYTES = 40e9
"""What a case may take of the GPU's memory, so that the suite runs on smaller GPUs than the H200."""

# A round of a case is to stay under about 60 ms on two cores, at the speed of eager operators there.
_CPU_BYTES = 100e6
_CPU_FLOPS = 6e9

DeclareWork = Callable[..., None]


@pytest.fixture(scope="session")
def device() -> torch.device:
    """The device that is measured."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(scope="session")
def dtype(device: torch.device) -> torch.dtype:
    """The element type that is measured: what models run in on that device."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


@pytest.fixture
def generator(device: torch.device) -> torch.Generator:
    """Random numbers of a case: the same in every run, so that every run does the same work."""
    return torch.Generator(device).manual_seed(7)


@pytest.fixture
def fresh_generator(device: torch.device, seed: int) -> torch.Generator:
    """Random numbers that differ in every run, to choose what is checked."""
    return torch.Generator(device).manual_seed(seed)


@pytest.fixture
def declare_work(nsight: Any, device: torch.device) -> DeclareWork:
    """A function that declares the work of a round; it skips the case where a CPU would take too long."""

    def declare(*, bytes: int, flops: int) -> None:  # noqa: A002 (as nsight.work calls it)
        if device.type == "cpu" and (bytes > _CPU_BYTES or flops > _CPU_FLOPS):
            pytest.skip(
                f"{bytes / 1e6:.0f} MB and {flops / 1e9:.1f} GFLOP a round are too much for a CPU; "
                "this case needs a CUDA device"
            )
        nsight.work(bytes=bytes, flops=flops)

    return declare


@pytest.fixture(scope="session", autouse=True)
def _modules_are_no_garbage() -> Iterator[None]:
    """Leave what exists before the first case, mostly modules, out of all collections: they took 0.1 s a case."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _bounded_memory(device: torch.device, record_property: Callable[[str, object], None]) -> Iterator[None]:
    """Give each case an empty GPU memory, and fail the one that takes more of it than allowed."""
    if device.type != "cuda":
        yield
        return
    torch.cuda.reset_peak_memory_stats()
    yield
    peak_bytes = torch.cuda.max_memory_reserved()
    record_property("gpu_memory_peak_bytes", peak_bytes)
    gc.collect()
    torch.cuda.empty_cache()
    assert peak_bytes <= MOST_GPU_BYTES, (
        f"the case took {peak_bytes / 1e9:.1f} GB of GPU memory, at most {MOST_GPU_BYTES / 1e9:.0f} GB are allowed"
    )
