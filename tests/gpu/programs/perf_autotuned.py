"""Measured by tests/gpu/test_autotuners.py: CHOICE says which configuration each autotuner finds fastest."""

from __future__ import annotations

import itertools
import os

import pytest
import torch
import triton
import triton.language as tl

pytestmark = pytest.mark.nsight(rounds=12, warmup=3, rest="1ms")

LENGTH = 1 << 22
CHOICE = int(os.environ.get("CHOICE", "0"))
SIZES = (1024, 512)


def prefer(order):
    """Stands in for a benchmark: gives each configuration, in turn, its time."""
    times_ms = itertools.cycle(order)
    return lambda _call, quantiles: [next(times_ms)] * len(quantiles)


@triton.autotune(
    [triton.Config({"BLOCK": size}, num_warps=4) for size in SIZES],
    key=["length"],
    do_bench=prefer((1.0, 2.0) if CHOICE == 0 else (2.0, 1.0)),
)
@triton.jit
def _tuned_kernel(x, y, length, times, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offsets, offsets < length)
    # Only the second size works so often, so that a choice can be slower.
    for _ in range(times if BLOCK == 512 else 1):
        value = tl.sin(value)
    tl.store(y + offsets, value, offsets < length)


def launch(x, y, times):
    length = x.numel()
    _tuned_kernel[lambda meta: (triton.cdiv(length, meta["BLOCK"]),)](x, y, length, times)


@pytest.fixture
def tensors():
    x = torch.rand(LENGTH, device="cuda")
    return x, torch.empty_like(x)


def test_equal(nsight, tensors):
    nsight(launch, *tensors, 1)


def test_slower_choice(nsight, tensors):
    nsight(launch, *tensors, 3)


def test_less_work(nsight, tensors):
    """The autotuner has another problem to solve, so it explains nothing."""
    x, y = (each[: LENGTH // 4] if CHOICE else each for each in tensors)
    nsight(launch, x, y, 1)


def test_compiled(nsight, tensors):
    nsight(torch.compile(lambda x: torch.nn.functional.gelu(x) * 2), tensors[0])
