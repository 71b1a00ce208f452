"""Measured by tests/gpu/test_without_torch.py; SPOILED names the case that does more."""

from __future__ import annotations

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import pytest

SPOILED = os.environ.get("SPOILED", "")

pytestmark = pytest.mark.nsight(rounds=20, warmup=3, rest="1ms")


def test_attention(nsight):
    q = jax.random.normal(jax.random.key(1), (2048, 512))

    def attend(a):
        scores = jax.nn.softmax(a @ a.T / 22.6)
        return scores @ (scores @ a) if SPOILED == "attention" else scores @ a

    step = jax.jit(attend)
    nsight(lambda: step(q).block_until_ready())


def test_gradient(nsight):
    rows = 8192 if SPOILED == "gradient" else 4096
    x, w = jax.random.normal(jax.random.key(2), (rows, 1024)), jax.random.normal(jax.random.key(3), (1024, 1024))
    step = jax.jit(jax.grad(lambda weights: (jax.nn.gelu(x @ weights) ** 2).sum()))
    nsight(lambda: step(w).block_until_ready())


def test_scan(nsight):
    x = jax.random.normal(jax.random.key(4), (4096, 1024))
    turns = 40 if SPOILED == "scan" else 20
    step = jax.jit(lambda a: jax.lax.fori_loop(0, turns, lambda _, b: jax.numpy.sin(b) + 1, a))
    nsight(lambda: step(x).block_until_ready())
