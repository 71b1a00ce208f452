"""Measured by tests/gpu/test_identity.py; SPOILED names the case whose launches are others than they were.

Lengths stay multiples of 16, for which Triton makes the same code.
"""

from __future__ import annotations

import itertools
import os

import pytest
import torch
from own_kernel import LOOPS, repeat

LENGTH = 1 << 20

pytestmark = pytest.mark.nsight(rounds=20, warmup=3, rest="1ms")

SPOILED = os.environ.get("SPOILED", "")


@pytest.fixture
def x():
    return torch.rand(LENGTH, device="cuda")


def test_triton(nsight, x):
    y = torch.empty_like(x)
    nsight(repeat, x, y, LOOPS + (SPOILED == "code"))


def test_argument(nsight, x):
    y = torch.empty_like(x)
    nsight(repeat, x, y, elements=LENGTH - 16 * (SPOILED == "argument"))


def test_grid(nsight, x):
    y = torch.empty_like(x)
    part = x[: LENGTH // (2 if SPOILED == "grid" else 1)]
    nsight(repeat, part, y)


def test_matmul(nsight):
    x = torch.rand(512, 512, device="cuda", dtype=torch.bfloat16)
    y = torch.empty_like(x)
    nsight(torch.mm, x, x, out=y)


def test_softmax(nsight, x):
    nsight(torch.softmax, x.view(1024, -1), 1)


def test_graph(nsight, x):
    y = torch.empty_like(x)
    repeat(x, y)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(3):
            repeat(x, y, elements=LENGTH - 16 * (SPOILED == "graph"))
    nsight(captured.replay)


def test_parts(nsight, x):
    y = torch.empty_like(x)

    def body():
        with nsight.range("first"):
            repeat(x, y)
        with nsight.range("second"):
            repeat(y, x)

    nsight(body)


def test_counting(nsight, x):
    state = [0]

    def body():
        state[0] += 1
        x.add_(state[0])

    nsight(body)


def test_random(nsight, x):
    nsight(lambda: x.add_(int.from_bytes(os.urandom(2), "little")))


def test_changing(nsight, x):
    lengths = itertools.cycle((LENGTH, LENGTH // 2))
    nsight(lambda: x[: next(lengths)].add_(1))
