"""The fused kernels beside what else does their work, at 65536 tokens, measured by this project's own gate.

    pytest --nsight --nsight-markdown competitors.md benchmarks/competitors

torch is its own fused operator (or the fewest of them that do it), compiled what torch.compile makes of the
unfused variant, liger Liger-Kernel, skipped where it is not installed. All get the same inputs of the same type;
the L2 cache is cold and every round rested, as in every measurement here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from benchmarks import liger
from benchmarks.workload import Source, Workload
from benchmarks.workloads import MAKERS
from perf_tests.llama import LARGE, Configuration

# Where two ways do the same, or torch has no operator of its own, there is one fewer.
CONTESTS = {
    "copy": ("torch",),
    "rms_norm": ("fused", "torch", "compiled", "liger"),
    "rms_norm_backward": ("fused", "torch", "compiled", "liger"),
    "add_rms_norm": ("fused", "torch", "compiled", "liger"),
    "swiglu": ("fused", "compiled", "liger"),
    "swiglu_backward": ("fused", "torch", "compiled", "liger"),
    "bias_gelu": ("fused", "compiled"),
    "rotary": ("fused", "compiled", "liger"),
    "softmax": ("fused", "torch", "compiled", "liger"),
    "cross_entropy": ("fused", "torch", "compiled", "liger"),
    "rms_norm_linear": ("fused", "compiled", "product"),
}
CASES = [pytest.param(operator, way, id=f"{operator}-{way}") for operator, ways in CONTESTS.items() for way in ways]

# bf16 rounds by 2^-9 on average; three or four roundings and a sum of squares lie between input and result.
MOST_ERROR = 0.01


@pytest.mark.nsight(rounds=30)
@pytest.mark.parametrize(("operator", "way"), CASES)
def test_competitor(nsight: Any, operator: str, way: str) -> None:
    if way == "liger" and not liger.IS_INSTALLED:
        pytest.skip("Liger-Kernel is not installed here; pip install liger-kernel==0.8.5")
    is_cuda = torch.cuda.is_available()
    torch.manual_seed(7)
    source = Source(torch.device("cuda" if is_cuda else "cpu"), torch.bfloat16 if is_cuda else torch.float32)
    workload = MAKERS[operator](LARGE if is_cuda else Configuration(1, 4), source)
    nsight.work(bytes=workload.bytes_moved, flops=workload.flops)
    call, name = find_call(workload, way)

    # The first call, because some ways write over their inputs.
    out = call()
    if name not in workload.unchecked:
        assert workload.error(out) < MOST_ERROR
    del out

    nsight(call)


def find_call(workload: Workload, way: str) -> tuple[Callable[[], Any], str]:
    """The computation of a way, and the name that the workload has for it."""
    name = {"product": "bare product (cuBLAS)", "compiled": "torch.compile"}.get(way, way)
    if name in workload.ways:
        return workload.ways[name], name
    assert workload.compiled is not None
    function, arguments = workload.compiled
    compiled = torch.compile(function, dynamic=False)
    return lambda: compiled(*arguments), name


@pytest.fixture(autouse=True)
def _free_memory() -> Any:
    """Forget what the case before compiled and held."""
    yield
    torch.compiler.reset()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
