"""Measured by tests/gpu/test_without_torch.py; SPOILED names the case that takes twice its time."""

from __future__ import annotations

import math
import os

import numpy
import pytest
from numba import cuda, float32

SPOILED = os.environ.get("SPOILED", "")
COUNT = 1 << 22
SIDE = 1024
TILE = 16

pytestmark = pytest.mark.nsight(rounds=20, warmup=3, rest="1ms")


@cuda.jit
def turn(x, turns):
    i = cuda.grid(1)
    if i < x.size:
        for _ in range(turns):
            x[i] = math.sin(x[i]) + float32(1)


@cuda.jit
def add(x, y, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = x[i] + y[i]


@cuda.jit
def multiply(x, y, out):
    row, column = cuda.grid(2)
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    total = float32(0)
    for step in range(x.shape[1] // TILE):
        left[cuda.threadIdx.x, cuda.threadIdx.y] = x[row, step * TILE + cuda.threadIdx.y]
        right[cuda.threadIdx.x, cuda.threadIdx.y] = y[step * TILE + cuda.threadIdx.x, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += left[cuda.threadIdx.x, k] * right[k, cuda.threadIdx.y]
        cuda.syncthreads()
    out[row, column] = total


def ones(*shape):
    return cuda.to_device(numpy.ones(shape, dtype=numpy.float32))


def test_kernel(nsight):
    x = ones(COUNT)
    nsight(lambda: turn[COUNT // 256, 256](x, 80 if SPOILED == "kernel" else 40))


def test_add(nsight):
    count = 32 * COUNT if SPOILED == "add" else 16 * COUNT
    x, y, out = ones(count), ones(count), ones(count)
    nsight(lambda: add[1024, 256](x, y, out))


def test_matmul(nsight):
    inner = 2 * SIDE if SPOILED == "matmul" else SIDE
    x, y, out = ones(SIDE, inner), ones(inner, SIDE), ones(SIDE, SIDE)
    grid = (SIDE // TILE, SIDE // TILE)
    nsight(lambda: multiply[grid, (TILE, TILE)](x, y, out))
