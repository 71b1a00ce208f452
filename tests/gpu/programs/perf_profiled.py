"""Measured by tests/gpu/test_cupti.py: torch.profiler inside a test, around one, and in none."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.nsight(rounds=10, warmup=2)


def add():
    x = torch.zeros(1 << 20, device="cuda")
    for _ in range(3):
        x.add_(1)


def profiled():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
        add()


def test_before(nsight):
    nsight(add)


def test_inside(nsight):
    nsight(profiled)


def test_between(nsight):
    nsight(add)


def test_around(nsight):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
        nsight(add)


def test_after(nsight):
    nsight(add)
