"""The benchmarking functions of other packages, replaced in the modules that define them.

Arguments are bound by the signature of the replaced function. Only arguments that have the same name in every known
version are used. In the first pass a call returns the value of the replaced function.
"""

from __future__ import annotations

import functools
import inspect
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from pytest_nsight.protocol.script import ADDRESS
from pytest_nsight.worker.script_calls import Call, CallRouter

Describe = Callable[[Mapping[str, Any], Callable[[], Any]], Call]
"""(bound arguments, the original function with these arguments) -> the call."""

_DO_BENCH = ("do_bench", "do_bench_cudagraph", "do_bench_proton", "do_bench_cudagraph_proton")
_BENCH_GPU_TIME = (
    "bench_gpu_time",
    "bench_gpu_time_with_cuda_event",
    "bench_gpu_time_with_cudagraph",
    "bench_gpu_time_with_cupti",
)
_RETURN_MODES = ("min", "max", "mean", "median", "all")
_TIMER_METHODS = ("timeit", "blocked_autorange", "adaptive_autorange")
_PROFILER = "tilelang.profiler"


def list_patches(router: CallRouter) -> dict[str, Callable[[ModuleType], None]]:
    """Module that defines a benchmarking function -> what replaces it there once the module is imported."""
    return {
        "triton.testing": partial(_patch_triton, router),
        "torch.utils.benchmark.utils.timer": partial(_patch_timer, router),
        "flashinfer.testing.utils": partial(_replace, router, _BENCH_GPU_TIME, _describe_bench_gpu_time),
        "tilelang.profiler.bench": partial(_replace, router, ("do_bench",), _describe_do_bench),
        _PROFILER: partial(_patch_profiler, router),
    }


def _replace(router: CallRouter, names: Sequence[str], describe: Describe, module: ModuleType) -> None:
    """Replaces functions defined in this module; imported ones are replaced where they are defined."""
    for name in names:
        original = vars(module).get(name)
        if callable(original) and getattr(original, "__module__", "") == module.__name__:
            setattr(module, name, _make_replacement(router, original, describe))


def _make_replacement(router: CallRouter, original: Callable[..., Any], describe: Describe) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        call_original = partial(original, *args, **kwargs)

        def describe_call() -> Call:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return describe(bound.arguments, call_original)

        return router.route(call_original, describe_call)

    return replacement


def _describe_do_bench(given: Mapping[str, Any], original: Callable[[], Any]) -> Call:
    """`do_bench` of Triton and of tilelang: one function, its gradients cleared before each repetition."""
    tensors = given.get("grad_to_none")

    def clear_gradients() -> None:
        for tensor in tensors or ():
            tensor.grad = None

    quantiles, mode = given.get("quantiles"), given.get("return_mode", "mean")
    return Call(
        body=given["fn"],
        original=original,
        value=lambda times_ms: _summarise(times_ms, quantiles, mode),
        setup=clear_gradients if tensors is not None else None,
    )


def _summarise(times_ms: list[float], quantiles: Sequence[float] | None, mode: str) -> float | list[float]:
    if mode not in _RETURN_MODES:
        raise ValueError(f"do_bench has no return_mode {mode!r}; it has {', '.join(_RETURN_MODES)}")
    if quantiles is not None:
        values = [float(value) for value in np.quantile(times_ms, quantiles)]
        return values[0] if len(values) == 1 else values
    if mode == "all":
        return times_ms
    if mode in ("min", "max"):
        return min(times_ms) if mode == "min" else max(times_ms)
    return statistics.median(times_ms) if mode == "median" else statistics.fmean(times_ms)


def _describe_bench_gpu_time(given: Mapping[str, Any], original: Callable[[], Any]) -> Call:
    """FlashInfer's functions: a function with its arguments, and a list of ms."""
    flush = given.get("l2_flush")
    return Call(
        body=partial(given["fn"], *given.get("input_args", ()), **(given.get("input_kwargs") or {})),
        original=original,
        value=list,
        cold_cache=bool(given.get("cold_l2_cache", True) if flush is None else flush),
    )


def _patch_triton(router: CallRouter, module: ModuleType) -> None:
    _replace(router, _DO_BENCH, _describe_do_bench, module)
    mark = module.Mark
    original = mark._run  # noqa: SLF001 - what `Mark.run` calls for each benchmark of a report

    @functools.wraps(original)
    def run(self: Any, bench: Any, *args: Any, **kwargs: Any) -> Any:
        function = self.fn

        def name_and_call(**values: Any) -> Any:
            with router.labelled(_name_point(bench, values, function)):
                return function(**values)

        self.fn = name_and_call
        try:
            return original(self, bench, *args, **kwargs)
        finally:
            self.fn = function

    mark._run = run  # noqa: SLF001


def _name_point(bench: Any, values: Mapping[str, Any], function: Callable[..., Any]) -> str:
    """A point of a report: "softmax[N=1024-triton]".

    A line whose value, as a function's, prints its address in memory, which no other process has, goes by the name
    that the report gives it.
    """
    xs = [f"{name}={_name_value(values.get(name))}" for name in bench.x_names]
    plot = bench.plot_name or getattr(function, "__name__", "report")
    line = values.get(bench.line_arg)
    named = zip(bench.line_vals, bench.line_names, strict=False)
    names = [name for value, name in named if value is line and ADDRESS.search(str(value))]
    return f"{plot}[{'-'.join([*xs, *(names[:1] or [_name_value(line)])])}]"


def _name_value(value: object) -> str:
    """The value as text; a function by its name."""
    text = str(value)
    return str(getattr(value, "__name__", text)) if ADDRESS.search(text) else text


def _patch_timer(router: CallRouter, module: ModuleType) -> None:
    for name in _TIMER_METHODS:
        setattr(module.Timer, name, _make_timer_method(router, getattr(module.Timer, name)))


def _make_timer_method(router: CallRouter, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        call_original = partial(original, self, *args, **kwargs)
        if "PYTHON" not in str(self._language):
            return router.refuse(call_original, "statements of torch.utils.benchmark.Timer in C++ are not measured")
        return router.route(call_original, lambda: _describe_timer(self, call_original))

    return method


def _describe_timer(timer: Any, original: Callable[[], Any]) -> Call:
    """A statement: its set-up runs once, before all rounds, and they share their names as lines of one function."""
    task = timer._task_spec  # noqa: SLF001 - no public attribute has the statement
    names: dict[str, Any] = {}
    statement = compile(task.stmt, "<timeit-src>", "exec")

    @contextmanager
    def prepare() -> Iterator[None]:
        import torch  # noqa: PLC0415 - a script with a Timer has imported torch

        threads = torch.get_num_threads()
        torch.set_num_threads(task.num_threads)
        try:
            names.update(timer._timer.inner.__globals__)  # noqa: SLF001 - what the statement sees
            exec(compile(task.setup, "<timeit-setup>", "exec"), names)
            yield
        finally:
            names.clear()
            torch.set_num_threads(threads)

    return Call(
        body=lambda: exec(statement, names),
        original=original,
        # The statement is repeated without anything in between.
        cold_cache=False,
        context=prepare,
        label=_name_task(task),
    )


def _name_task(task: Any) -> str:
    """What a Timer is called: "softmax[fused-1024]", "" if the script gave no name."""
    parts = [str(part) for part in (task.sub_label, task.description) if part]
    return f"{task.label or 'Timer'}[{'-'.join(parts)}]" if parts else str(task.label or "")


def _patch_profiler(router: CallRouter, module: ModuleType) -> None:
    # Earlier versions define the function here.
    _replace(router, ("do_bench",), _describe_do_bench, module)
    original = module.Profiler.do_bench

    @functools.wraps(original)
    def do_bench(self: Any, *args: Any, **kwargs: Any) -> Any:
        # It makes the tensors and passes a function of no arguments on.
        return router.within(_PROFILER, partial(original, self, *args, **kwargs))

    module.Profiler.do_bench = do_bench
