"""What is done before a case so that its predecessors matter less: CONTEXT_PROLOGUE, several with commas between.

kernels     a fixed series of kernels of many kinds
allocator   the allocator's cache is emptied, so that the case's tensors lie in fresh memory
spin        the GPU is kept busy for 50 ms, so that its clock has risen
round       before each round the case's own kernel runs once on its own tensors, before the flush of the cache
"""

from __future__ import annotations

import gc
import os
import time

import torch

from benchmarks.context.suite import filler_cases

VARIABLE = "CONTEXT_PROLOGUE"
NAMES = ("kernels", "allocator", "spin", "round")
_SPIN_S = 0.05
_SERIES = ("large_softmax", "layer_norm", "embedding", "prefix_sum", "scatter", "large_matmul", "large_copy")


def chosen() -> frozenset[str]:
    """The prologues that are asked for.

    Raises:
        ValueError: a name is unknown.
    """
    names = frozenset(filter(None, os.environ.get(VARIABLE, "").split(",")))
    if unknown := sorted(names - set(NAMES)):
        raise ValueError(f"{VARIABLE} has {', '.join(unknown)}; choose from {', '.join(NAMES)}")
    return names


def run(device: str, names: frozenset[str]) -> None:
    """Runs the prologues that come once before a case."""
    if "kernels" in names:
        for name in _SERIES:
            body = filler_cases.CASES[name](device)
            body()
            body()
    if "spin" in names:
        _spin(device)
    if "allocator" in names:
        gc.collect()
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()


def _spin(device: str) -> None:
    x = torch.ones(2048, 2048, device=device) if device == "cuda" else torch.ones(64, 64)
    began_s = time.monotonic()
    while time.monotonic() - began_s < _SPIN_S:
        torch.mm(x, x)
        if device == "cuda":
            torch.cuda.synchronize()
