"""While a tuner times what it tries, nothing slows its launches down."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType

import pytest

from pytest_nsight.worker.tuner_trials import list_trial_patches


class Pauses:
    """Counts those who are inside."""

    def __init__(self) -> None:
        self.inside = 0

    @contextmanager
    def enter(self) -> Iterator[None]:
        self.inside += 1
        yield
        self.inside -= 1


def test_what_times_a_tuners_trials_runs_within_a_pause() -> None:
    pauses = Pauses()
    triton, inductor = ModuleType("triton.testing"), ModuleType("torch._inductor.runtime.benchmarking")
    exec("def do_bench(fn, quantiles=None): return fn()", vars(triton))
    exec(
        "class Benchmarker:\n"
        "    def benchmark(self, fn): return self.benchmark_gpu(fn)\n"
        "    def benchmark_gpu(self, fn): return fn()\n"
        "    def other(self, fn): return fn()\n",
        vars(inductor),
    )
    patches = list_trial_patches(pauses.enter)
    for module in (triton, inductor):
        patches[module.__name__](module)

    assert triton.do_bench(lambda: pauses.inside, quantiles=(0.5,)) == 1
    assert inductor.Benchmarker().benchmark(lambda: pauses.inside) == 2
    assert inductor.Benchmarker().other(lambda: pauses.inside) == 0
    assert pauses.inside == 0


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_inductors_and_tritons_own_functions_run_within_a_pause() -> None:
    code = """
from contextlib import nullcontext
from pytest_nsight.worker.tuner_trials import list_trial_patches
from pytest_nsight.worker.patched_imports import patch_imports

patch_imports(list_trial_patches(nullcontext))
import triton.testing
from torch._inductor.runtime.benchmarking import InductorBenchmarker

assert all(hasattr(one, "__wrapped__") for one in (triton.testing.do_bench, InductorBenchmarker.benchmark_gpu))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
