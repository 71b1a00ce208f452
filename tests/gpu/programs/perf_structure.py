"""Measured by tests/gpu/test_structure.py; where SPOILED is set, each case has come apart in its own way."""

from __future__ import annotations

import itertools
import os

import pytest
import torch

from tests.gpu.programs.bodies import scale
from tests.gpu.programs.sizes import BLOCK, LENGTH, ROUNDS

pytestmark = pytest.mark.nsight(rounds=ROUNDS, warmup=3, rest="1ms")

IS_SPOILED = bool(os.environ.get("SPOILED"))


@pytest.fixture
def x():
    return torch.rand(LENGTH, device="cuda")


def test_fusion(nsight, x):
    nsight((lambda: x.sin().mul_(2.0)) if IS_SPOILED else (lambda: scale(x)))


def test_tile(nsight, x):
    nsight(scale, x, 4 * BLOCK if IS_SPOILED else BLOCK)


def test_copy(nsight, x):
    nsight((lambda: x.add_(1.0).cpu()) if IS_SPOILED else (lambda: x.add_(1.0)))


def test_lost(nsight, x):
    nsight((lambda: x.add_(1.0)) if IS_SPOILED else (lambda: x.add_(1.0).sin_()))


def test_unstable(nsight, x):
    numbers = itertools.count()

    def body():
        x.add_(1.0)
        if IS_SPOILED and next(numbers) % 2:
            x.sin_()

    nsight(body)
