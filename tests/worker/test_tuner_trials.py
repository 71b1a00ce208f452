"""While a tuner times what it tries, nothing slows its launches down."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from pytest_nsight.worker.tuner_trials import list_trial_patches
from tests.toolchain import require_triton


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
def test_inductors_and_tritons_own_functions_begin_with_a_pause() -> None:
    require_triton()
    code = """
from pytest_nsight.worker.patched_imports import patch_imports
from pytest_nsight.worker.tuner_trials import list_trial_patches

class Entered(Exception):
    pass

def enter():
    raise Entered

patch_imports(list_trial_patches(enter))
import triton.testing
from torch._inductor.runtime.benchmarking import InductorBenchmarker

for time_trial in (triton.testing.do_bench, InductorBenchmarker().benchmark_gpu):
    try:
        time_trial(lambda: None)
    except Entered:
        continue
    raise AssertionError(time_trial)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
