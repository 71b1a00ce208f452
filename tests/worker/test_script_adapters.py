"""What a benchmarking function of another package would have done with a call is what a case consists of."""

from __future__ import annotations

import importlib
import importlib.util
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_nsight.worker.patched_imports import patch_imports
from pytest_nsight.worker.script_adapters import list_patches
from pytest_nsight.worker.script_calls import Call, CallRouter, find_value

PACKAGES = Path(__file__).parents[1] / "fakes" / "packages"
TIMES_MS = [4.0, 1.0, 2.0, 3.0, 10.0]


class Handler:
    """Keeps the calls and returns what the library would, of rounds with known durations."""

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self.patches = list_patches(CallRouter(self.handle))

    def handle(self, name: str, call: Call) -> Any:
        self.calls[name] = call
        return call.original() if call.value is None else call.value(list(TIMES_MS))

    def load(self, name: str) -> ModuleType:
        """A copy of a module of this name, patched; the one that others have imported stays as it is."""
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.patches[name](module)
        return module

    @property
    def last(self) -> Call:
        return list(self.calls.values())[-1]


@pytest.fixture
def handler() -> Handler:
    return Handler()


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small modules with the signatures of FlashInfer and tilelang."""
    monkeypatch.syspath_prepend(PACKAGES)
    before, finders = set(sys.modules), list(sys.meta_path)
    yield
    sys.meta_path[:] = finders
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("flashinfer", "tilelang", "matplotlib"):
            del sys.modules[name]


MODES: list[dict[str, Any]] = [
    {},
    *({"return_mode": mode} for mode in ("min", "max", "mean", "median", "all")),
    {"quantiles": [0.5]},
    {"quantiles": [0.5, 0.2, 0.8], "return_mode": "min"},
]


@pytest.mark.parametrize("given", MODES, ids=str)
@pytest.mark.parametrize("name", ["do_bench", "do_bench_cudagraph"])
def test_do_bench_returns_what_triton_makes_of_the_same_durations(
    handler: Handler, name: str, given: dict[str, Any]
) -> None:
    pytest.importorskip("triton")
    testing = handler.load("triton.testing")

    value = getattr(testing, name)(lambda: 7, **given)

    wanted = testing._summarize_statistics(list(TIMES_MS), given.get("quantiles"), given.get("return_mode", "mean"))
    assert type(value) is type(wanted)
    assert value == pytest.approx(wanted)
    assert handler.last.body() == 7
    assert handler.last.cold_cache


@pytest.mark.parametrize("given", [{}, {"quantiles": [0.5]}], ids=str)
def test_do_bench_refuses_an_unknown_return_mode_as_triton_does(handler: Handler, given: dict[str, Any]) -> None:
    pytest.importorskip("triton")
    testing = handler.load("triton.testing")

    with pytest.raises(ValueError, match="no return_mode 'bogus'; it has min, max"):
        testing.do_bench(lambda: 7, return_mode="bogus", **given)


def test_do_bench_clears_gradients_before_each_round_and_not_inside(handler: Handler) -> None:
    pytest.importorskip("triton")
    torch = pytest.importorskip("torch")
    x = torch.ones(3, requires_grad=True)

    handler.load("triton.testing").do_bench(lambda: x.sum().backward(), grad_to_none=[x])
    call = handler.last
    for _ in range(2):
        assert call.setup is not None
        call.setup()
        assert x.grad is None
        call.body()

    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_a_report_names_its_points_by_plot_values_and_provider(handler: Handler, stand_ins: None) -> None:
    pytest.importorskip("triton")
    testing = handler.load("triton.testing")
    seen: list[tuple[int, int, str, str]] = []

    def benchmark(M: int, N: int, provider: str, dtype: str) -> float:
        seen.append((M, N, provider, dtype))
        testing.do_bench(lambda: None)
        return float(testing.do_bench(lambda: None))

    report = testing.perf_report(
        testing.Benchmark(
            x_names=["M", "N"],
            x_vals=[(1, 2), 8],
            line_arg="provider",
            line_vals=["fused", "torch"],
            line_names=["a", "b"],
            plot_name="softmax",
            args={"dtype": "half"},
        )
    )(benchmark)
    frame = report.run(return_df=True)

    points = ["M=1-N=2-fused", "M=1-N=2-torch", "M=8-N=8-fused", "M=8-N=8-torch"]
    assert list(handler.calls) == [f"softmax{again}[{point}]" for point in points for again in ("", "#2")]
    assert seen == [
        (1, 2, "fused", "half"),
        (1, 2, "torch", "half"),
        (8, 8, "fused", "half"),
        (8, 8, "torch", "half"),
    ]
    assert frame["a ()"].tolist() == [statistics.fmean(TIMES_MS)] * 2
    assert report.fn is benchmark


def test_a_point_of_functions_has_their_names_and_no_addresses(handler: Handler, stand_ins: None) -> None:
    pytest.importorskip("triton")
    testing = handler.load("triton.testing")

    def scale() -> None: ...

    unnamed = partial(scale, 1)
    report = testing.perf_report(
        testing.Benchmark(
            x_names=["op"],
            x_vals=[scale, unnamed],
            line_arg="how",
            line_vals=[scale, unnamed],
            line_names=["eager", "ours"],
            plot_name="p",
            args={},
        )
    )(lambda op, how: 1.0 if testing.do_bench(lambda: None) else 0.0)
    # pandas does not sort what it draws, but the default plot wants numbers.
    report.run(show_plots=False, print_data=False, save_path="")

    rest = (
        "functools.partial(<function test_a_point_of_functions_has_their_names_and_no_addresses.<locals>.scale>, 1)"
    )
    points = ["op=scale-eager", "op=scale-ours", f"op={rest}-eager", f"op={rest}-ours"]
    assert [name.partition("~")[0] for name in handler.calls] == [f"p[{point}]" for point in points]


def test_a_timers_statement_sees_its_set_up_and_its_names_with_its_threads(handler: Handler) -> None:
    torch = pytest.importorskip("torch")
    timer = handler.load("torch.utils.benchmark.utils.timer")
    log: list[Any] = []
    task = timer.Timer(
        "log.append((x + y, torch.get_num_threads()))",
        setup="y = 2\nlog.append('set up')",
        globals={"x": 1, "log": log},
        label="add",
        sub_label="small",
        description="eager",
        num_threads=torch.get_num_threads() + 1,
    )

    measurement = task.timeit(1)
    del log[:]
    with handler.last.context():
        handler.last.body()
        handler.last.body()

    threads = torch.get_num_threads()
    assert list(handler.calls) == ["add[small-eager]"]
    assert log == ["set up", (3, threads + 1), (3, threads + 1)]
    assert measurement.median > 0
    assert not handler.last.cold_cache
    assert find_value(handler.last, has_gpu=False).task_spec.label == "add"


def test_a_timer_of_cpp_passes_and_is_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    handler = Handler()
    router = CallRouter(handler.handle)
    handler.patches = list_patches(router)
    timer = handler.load("torch.utils.benchmark.utils.timer")
    task = timer.Timer("1 + 1")
    task._language = timer.Language.CPP

    assert task.timeit(2).number_per_run == 2
    assert handler.calls == {}
    assert router.unmeasured == ("statements of torch.utils.benchmark.Timer in C++ are not measured",)


@pytest.mark.parametrize(
    ("given", "is_cold"),
    [({}, True), ({"cold_l2_cache": False}, False), ({"l2_flush": False}, False), ({"use_cuda_graph": True}, True)],
)
def test_flashinfer_gets_a_list_of_milliseconds(
    handler: Handler, stand_ins: None, given: dict[str, Any], is_cold: bool
) -> None:
    utils = handler.load("flashinfer.testing.utils")

    times = utils.bench_gpu_time(lambda a, b: a - b, input_args=(5,), input_kwargs={"b": 3}, **given)

    assert times == TIMES_MS
    assert len(handler.calls) == 1
    assert handler.last.body() == 2
    assert handler.last.cold_cache is is_cold


def test_tilelangs_function_and_method_are_one_case_each_and_its_autotuner_none(
    handler: Handler, stand_ins: None
) -> None:
    patch_imports({name: patch for name, patch in handler.patches.items() if name.startswith("tilelang")})
    module = importlib.import_module("tilelang.profiler")
    autotuner = importlib.import_module("tilelang.autotuner")
    profiler = module.Profiler(lambda a, b: a * b, (2, 3))

    def kernel(method: Callable[..., Any]) -> Any:
        return method(return_mode="max")

    assert module.do_bench(lambda: 4, quantiles=[0.0, 1.0]) == [1.0, 10.0]
    assert handler.last.body() == 4
    assert kernel(profiler.do_bench) == 10.0
    assert handler.last.body() == 6
    assert len(handler.calls) == 2
    assert autotuner.tune(profiler) == "no GPU"
    assert len(handler.calls) == 2
