"""On what the perf tests run: a CUDA device if there is one, else what a CPU does in reasonable time."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest
import torch

# A round of a case is to stay under about 60 ms on two cores, at the speed of eager operators there.
_CPU_BYTES = 100e6
_CPU_FLOPS = 6e9

LimitWork = Callable[..., None]


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
def limit_work(device: torch.device) -> LimitWork:
    """A function that skips the case where a CPU is measured and would take too long."""

    def limit(*, bytes_moved: int, flops: int = 0) -> None:
        if device.type == "cpu" and (bytes_moved > _CPU_BYTES or flops > _CPU_FLOPS):
            pytest.skip(
                f"{bytes_moved / 1e6:.0f} MB and {flops / 1e9:.1f} GFLOP a round are too much for a CPU; "
                "this case needs a CUDA device"
            )

    return limit


@pytest.fixture(autouse=True)
def _free_memory(device: torch.device) -> Iterator[None]:
    """Give each case the whole GPU memory, the allocator's cache of the previous case's tensors included."""
    yield
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
