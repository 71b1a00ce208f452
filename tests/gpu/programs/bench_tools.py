"""A benchmark script for `pytest-nsight run`; SPOILED=1 makes three kernels of one."""

import os

import torch
from torch.utils.benchmark import Timer
from triton.testing import do_bench

x = torch.ones(1 << 26, device="cuda")
y = torch.ones_like(x)


def scale_and_add(x, y):
    if os.environ.get("SPOILED") == "1":
        return torch.clone(x * 2.0 + y)
    return torch.add(y, x, alpha=2.0)


def with_triton():
    return do_bench(lambda: scale_and_add(x, y), quantiles=[0.5, 0.2, 0.8])


def with_torch():
    names = {"add": scale_and_add, "x": x, "y": y}
    return Timer("add(x, z)", "z = y + 1", globals=names, label="add", description="large").timeit(20).median


print("milliseconds", with_triton()[0])
print("seconds", with_torch())
print("negated", do_bench(lambda: torch.neg(x)))
