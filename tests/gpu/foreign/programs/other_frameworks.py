"""Frameworks beside torch: CuPy and JAX."""

# ruff: noqa: PLC0415 - a program's packages are imported by its own case alone

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

from tests.gpu.foreign.programs.registry import SEED, Body, program


@program("CuPy", "cupy", needs_gpu=True)
def cupy_standardise(device: str, stack: ExitStack) -> Body:
    """Reductions and elementwise kernels that CuPy compiles at run time."""
    import cupy

    x = cupy.random.RandomState(SEED).standard_normal((4096, 1024), dtype=cupy.float32)
    return lambda: (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)


@program("CuPy", "cupy", needs_gpu=True)
def cupy_raw_kernel(device: str, stack: ExitStack) -> Body:
    """A kernel written in CUDA C."""
    import cupy

    source = """
    extern "C" __global__ void saxpy(const float* x, float* y, float a, int n) {
      int i = blockDim.x * blockIdx.x + threadIdx.x;
      if (i < n) y[i] += a * x[i];
    }
    """
    kernel = cupy.RawKernel(source, "saxpy")
    x, y = cupy.ones(1 << 22, dtype=cupy.float32), cupy.zeros(1 << 22, dtype=cupy.float32)
    return lambda: kernel((len(x) // 256,), (256,), (x, y, cupy.float32(0.5), cupy.int32(len(x))))


def _jax() -> Any:
    # It would take three quarters of the memory that other cases need.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    return jax


@program("JAX", "jax")
def jax_attention(device: str, stack: ExitStack) -> Body:
    """A jitted softmax of a matrix product; JAX has its own streams and NVTX strings."""
    jax = _jax()
    q = jax.random.normal(jax.random.key(SEED), (1024, 512))
    step = jax.jit(lambda a: jax.nn.softmax(a @ a.T / 22.6) @ a)
    return lambda: step(q).block_until_ready()


@program("JAX", "jax")
def jax_gradient(device: str, stack: ExitStack) -> Body:
    """Gradients of a small network."""
    jax = _jax()
    keys = jax.random.split(jax.random.key(SEED), 3)
    weights = [jax.random.normal(key, (512, 512)) / 22.6 for key in keys[:2]]
    x = jax.random.normal(keys[2], (2048, 512))
    step = jax.jit(jax.grad(lambda ws: (jax.numpy.tanh(x @ ws[0]) @ ws[1]).var()))
    return lambda: jax.block_until_ready(step(weights))
