"""Measured by tests/gpu/test_autotuners.py: CHOICE says which kernels the compilers of torch and JAX choose."""

from __future__ import annotations

import os

import pytest

CHOICE = int(os.environ.get("CHOICE", "0"))
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# Stands in for the times of two machines.
os.environ["XLA_FLAGS"] = ("--xla_gpu_cublas_fallback=false", "--xla_gpu_enable_triton_gemm=false")[CHOICE]

pytestmark = pytest.mark.nsight(rounds=12, warmup=3, rest="1ms")


TILES = "BLOCK_M=64, BLOCK_N=128"


def prefer_by_choice(monkeypatch):
    """Gives cuBLAS, or a template with these tiles, the shortest time."""
    select_algorithm = pytest.importorskip("torch._inductor.select_algorithm")

    def is_preferred(choice):
        return TILES in choice.description if CHOICE else not choice.name.startswith("triton")

    def benchmark(choices, *_, **__):
        # Inductor compares these with real times of what it would fuse.
        return {one: 1e-6 if is_preferred(one) else 1e3 for one in choices}

    monkeypatch.setattr(
        select_algorithm.AlgorithmSelectorCache, "make_benchmark_fn", classmethod(lambda *_, **__: benchmark)
    )


def test_torch(nsight, monkeypatch):
    torch = pytest.importorskip("torch")
    prefer_by_choice(monkeypatch)
    a, b = (torch.randn(1024, 1024, device="cuda", dtype=torch.float16) for _ in range(2))
    fused = torch.compile(lambda x, y: torch.relu(x @ y), mode="max-autotune-no-cudagraphs")
    nsight(fused, a, b)


@pytest.mark.parametrize("rows", [2048, pytest.param(4096 if CHOICE else 2048, id="other_work")])
def test_jax(nsight, monkeypatch, rows):
    jax = pytest.importorskip("jax")
    # XLA's flags belong to the work; here they make the choice.
    monkeypatch.setattr(jax._src.cache_key, "get", lambda computation, *_: str(computation))
    x, w = jax.random.normal(jax.random.key(1), (rows, 512)), jax.random.normal(jax.random.key(2), (512, 512))
    step = jax.jit(jax.grad(lambda weights: (jax.numpy.tanh(x @ weights) @ weights).var()))
    nsight(lambda: jax.block_until_ready(step(w)))
