"""Measured by tests/gpu/test_autotuners.py: CHOICE says how many candidates cuDNN tries for each convolution."""

from __future__ import annotations

import itertools
import os

import pytest
import torch

CANDIDATES = int(os.environ.get("CHOICE", "10"))
WIDTHS = (3, 24, 80, 200, 72)


@pytest.mark.nsight(rounds=12, warmup=3, rest="1ms")
def test_step(nsight, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark_limit", CANDIDATES)
    layers = [torch.nn.Conv2d(*each, 5, padding=2) for each in itertools.pairwise(WIDTHS)]
    model = torch.nn.Sequential(*layers).cuda()
    images = torch.rand(8, 3, 56, 56, device="cuda")

    def step():
        model.zero_grad(set_to_none=True)
        model(images).sum().backward()

    nsight(step)
