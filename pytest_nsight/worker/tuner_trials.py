"""The functions with which autotuners time what they try: whatever slows launches down is off while they run.

A tuner that times a launch together with work on the host takes all short kernels for equally fast, and keeps its
choice on disk (decision 46). XLA and cuDNN time in C++, out of reach; their choices last for one process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FunctionType, ModuleType
from typing import Any

EnterPause = Callable[[], AbstractContextManager[None]]

_FUNCTIONS = ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton")
_METHOD_PREFIX = "benchmark"
"""Of methods in Inductor's module for timing; before torch 2.5 Inductor calls Triton's functions."""


def list_trial_patches(enter_pause: EnterPause) -> dict[str, Callable[[ModuleType], None]]:
    """Module -> what makes its functions that time trials run within a pause.

    Args:
        enter_pause: makes a context; several may be open at once.
    """

    def patch_functions(module: ModuleType) -> None:
        for name in _FUNCTIONS:
            if callable(original := vars(module).get(name)):
                setattr(module, name, _make_pausing(enter_pause, original))

    def patch_classes(module: ModuleType) -> None:
        own = [one for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__]
        for kind in filter(lambda one: isinstance(one, type), own):
            for name, original in list(vars(kind).items()):
                if name.startswith(_METHOD_PREFIX) and isinstance(original, FunctionType):
                    setattr(kind, name, _make_pausing(enter_pause, original))

    return {
        "triton.testing": patch_functions,
        "tilelang.profiler.bench": patch_functions,
        "torch._inductor.runtime.benchmarking": patch_classes,
    }


def _make_pausing(enter_pause: EnterPause, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run_paused(*args: Any, **kwargs: Any) -> Any:
        with enter_pause():
            return original(*args, **kwargs)

    return run_paused
