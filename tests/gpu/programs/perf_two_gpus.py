"""Measured by tests/gpu/test_two_gpus.py, which copies it into a project of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

from tests.gpu.programs.sizes_two_gpus import CASES, CHILD_LAUNCHES, CHILD_ROUNDS, ELEMENTS, RANKS, ROUNDS

CHILD = f"""
import torch
x = torch.ones({ELEMENTS}, device="cuda")
for _ in range({CHILD_LAUNCHES}):
    x.neg_()
torch.cuda.synchronize()
"""


@pytest.mark.nsight(rounds=ROUNDS, rest="1ms", launches=1)
@pytest.mark.parametrize("number", range(CASES))
def test_single(nsight, number):
    x = torch.ones(ELEMENTS * (number + 1), device="cuda")
    nsight(x.neg_)


@pytest.mark.nsight(rounds=CHILD_ROUNDS, warmup=0, rest="1ms")
def test_child(nsight):
    nsight(lambda: subprocess.run([sys.executable, "-c", CHILD], check=True))


@pytest.fixture(scope="session")
def group():
    dist.init_process_group("nccl")
    yield
    dist.destroy_process_group()


@pytest.mark.nsight(rounds=ROUNDS, rest="1ms", ranks=RANKS, launches=1)
def test_all_reduce(nsight, group):
    x = torch.zeros(ELEMENTS, device="cuda")
    nsight(dist.all_reduce, x)
    x.fill_(nsight.rank + 1)
    dist.all_reduce(x)
    assert x.unique().item() == sum(range(1, nsight.ranks + 1))


@pytest.mark.nsight(rounds=ROUNDS, rest="1ms", ranks=RANKS)
def test_uneven(nsight, group):
    """Rank 1 works before it joins: rank 0's collective waits, and each side keeps its own structure."""
    x = torch.zeros(ELEMENTS, device="cuda")

    def body():
        for _ in range(20 * nsight.rank):
            x.neg_()
        dist.all_reduce(x)

    nsight(body)


@pytest.mark.nsight(rounds=ROUNDS, ranks=64)
def test_too_many(nsight):
    raise AssertionError("must be skipped: no machine has so many GPUs")
