"""Measured by tests/gpu/test_cupti.py under several collectors, which have to agree on every launch."""

from __future__ import annotations

import pytest
import torch

from tests.gpu.programs.bodies import BODIES
from tests.gpu.programs.sizes import LONG_CHAIN, ROUNDS

pytestmark = pytest.mark.nsight(rounds=ROUNDS, warmup=3)


def capture(nodes):
    x = torch.zeros(1 << 20, device="cuda")
    x.add_(1)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(nodes):
            x.add_(1)
    captured.held = x
    return captured


@pytest.fixture(scope="session", autouse=True)
def early_graph():
    """Captured before any case is recorded."""
    return capture(6)


@pytest.mark.parametrize("name", [name for name in BODIES if name != "compiled"])
def test_body(nsight, name):
    nsight(BODIES[name](nsight.range))


def test_softmax(nsight):
    x = torch.rand(8192, 4096, device="cuda")
    nsight(torch.softmax, x, -1)


def test_matmul(nsight):
    x = torch.rand(4096, 4096, device="cuda", dtype=torch.bfloat16)
    y = torch.empty_like(x)
    nsight(torch.mm, x, x, out=y)


def test_long_chain(nsight):
    x = torch.zeros(1 << 14, device="cuda")

    def body():
        for _ in range(LONG_CHAIN):
            x.add_(1)

    nsight(body)


def test_graph_of_the_session(nsight, early_graph):
    nsight(early_graph.replay)


def test_graph_of_the_test(nsight):
    captured = capture(20)
    nsight(captured.replay)


def test_capture_inside_the_round(nsight):
    nsight(lambda: capture(4).replay())


def test_set(nsight):
    x = torch.ones(32 << 20, dtype=torch.uint8, device="cuda")
    nsight(x.zero_)
