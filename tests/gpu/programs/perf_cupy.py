"""Measured by tests/gpu/test_without_torch.py; SPOILED names the case that takes twice its time."""

from __future__ import annotations

import os

import cupy
import pytest

SPOILED = os.environ.get("SPOILED", "")
SOURCE = """
extern "C" __global__ void turn(float* x, int n, int turns) {
  int i = blockDim.x * blockIdx.x + threadIdx.x;
  if (i < n) for (int turn = 0; turn < turns; ++turn) x[i] = sinf(x[i]) + 1.0f;
}
"""

pytestmark = pytest.mark.nsight(rounds=20, warmup=3, rest="1ms")


def test_raw_kernel(nsight):
    kernel = cupy.RawKernel(SOURCE, "turn")
    x = cupy.ones(1 << 22, dtype=cupy.float32)
    turns = 80 if SPOILED == "raw_kernel" else 40
    nsight(lambda: kernel((x.size // 256,), (256,), (x, cupy.int32(x.size), cupy.int32(turns))))


def test_standardise(nsight):
    rows = 8192 if SPOILED == "standardise" else 4096
    x = cupy.random.RandomState(1).standard_normal((rows, 2048), dtype=cupy.float32)
    nsight(lambda: (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True))


def test_matmul(nsight):
    x = cupy.ones((2048, 2048), dtype=cupy.float32)
    nsight(lambda: x @ x @ x if SPOILED == "matmul" else x @ x)
