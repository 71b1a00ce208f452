"""A benchmark script as people write it: it knows nothing of pytest-nsight."""

import argparse
import os
import sys
from pathlib import Path

import flashinfer.testing
import torch
from operators import scale_and_add
from tilelang.profiler import Profiler
from tilelang.profiler import do_bench as tilelang_bench
from torch.utils.benchmark import Compare, Timer
from triton.testing import do_bench

parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, required=True)
size = parser.parse_args().size
x, y = torch.ones(size, size), torch.ones(size, size)


def with_triton():
    ms = do_bench(lambda: scale_and_add(x, y))
    median, low, high = do_bench(lambda: x * y, quantiles=[0.5, 0.2, 0.8])
    assert ms > 0
    assert 0 < low <= median <= high
    return ms


def with_torch():
    found = [
        Timer(
            "add(x, z)", "z = y + 1", globals={"add": scale_and_add, "x": x, "y": y}, label="add", description=name
        )
        for name in ("first", "second")
    ]
    Compare([timer.blocked_autorange(min_run_time=0.01) for timer in found]).print()
    return found[0].timeit(10).median


def with_flashinfer():
    times = flashinfer.testing.bench_gpu_time(scale_and_add, input_args=(x, y), use_cuda_graph=True)
    assert isinstance(times, list)
    return min(times)


def with_tilelang():
    profiler = Profiler(scale_and_add, (x, y))
    return tilelang_bench(lambda: scale_and_add(x, y), return_mode="min"), profiler.do_bench(warmup=5)


if __name__ == "__main__":
    assert Path(sys.argv[0]).name == "bench_calls.py"
    print("folder", Path.cwd().name, "arguments", sys.argv[1:], "process", os.getpid())
    for bench in (with_triton, with_torch, with_flashinfer, with_tilelang):
        print(bench.__name__, bench())
    with Path("results.txt").open("a") as file:
        file.write("all printed\n")
