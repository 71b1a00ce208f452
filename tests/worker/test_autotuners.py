"""What autotuners choose is noted in the first warm-up rounds, and never while a round is measured."""

from __future__ import annotations

import functools
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_nsight.model.identity import TunedKernel
from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.worker.autotuners import MOST_KERNELS, WATCHED_ROUNDS, TuningNotes
from pytest_nsight.worker.measured_body import MeasuredBody, RoundPlan
from pytest_nsight.worker.rounds import RoundRunner
from tests.worker.board import Board, Silent

SOURCE = """\
# Original path: /home/{user}/train.py:{line}
import triton
{helper}
@triton_heuristics.{kind}({head}, inductor_meta={{'kernel_name': 'triton_poi_fused_0'}})
@triton.jit
def triton_poi_fused_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    BLOCK_M1 : tl.constexpr = {tile}
    ALLOW_TF32 : tl.constexpr = {tf32}
"""
PLAIN = {
    "user": "a",
    "line": 7,
    "helper": "",
    "kind": "pointwise",
    "head": "num_warps=4",
    "tile": 64,
    "tf32": True,
}


class Tensor:
    def __init__(self, *shape: int, dtype: str = "float32") -> None:
        self.shape, self.dtype = shape, dtype

    def stride(self) -> tuple[int, ...]:
        return (self.shape[-1], 1)

    def __str__(self) -> str:
        raise AssertionError("to print a tensor copies it from the device")


class Descriptor:
    """A tensor descriptor as Triton has it: its block is set by the configuration."""

    def __init__(self, base: Tensor, block: int) -> None:
        self.base, self.shape, self.strides, self.block_shape = base, list(base.shape), [64, 1], [block]


class Config:
    pre_hook: Callable[[Any], Any] | None = None

    def __init__(self, block: int) -> None:
        self.block = block

    def __str__(self) -> str:
        return f"BLOCK: {self.block}, num_warps: 4"

    def all_kwargs(self) -> dict[str, int]:
        return {"BLOCK": self.block, "num_warps": 4}


class Autotuner:
    """What this project uses of Triton's: the configurations, the function, and the one that was chosen."""

    def __init__(
        self,
        chosen: int = 0,
        key: str = "k1",
        blocks: tuple[int, ...] = (64, 128),
        heuristic: Callable[[Any], Any] = lambda given: given["n"] % 64 == 0,
        pruned_by: Callable[[Any], Any] | None = None,
        launched: object = "launched",
    ) -> None:
        self.configs = [Config(block) for block in blocks]
        self.arg_names = ["x", "n", "BLOCK"]
        # Heuristics stand between the two.
        function = SimpleNamespace(cache_key=key, __name__="_norm_kernel")
        self.fn = SimpleNamespace(fn=function, values={"EVEN": heuristic})
        self.early_config_prune, self.perf_model = pruned_by, None
        self.keys, self.reset_to_zero, self.configs_top_k = ["n"], list[int](), 1.0
        self.best_config = self.configs[chosen]
        self.launched = launched

    def run(self, *_: Any, **__: Any) -> object:
        return self.launched


class CachingAutotuner:
    """What this project uses of Inductor's."""

    def __init__(self, folder: Path, config: str = "XBLOCK: 256, num_warps: 4", **source: Any) -> None:
        path = folder / f"{len(list(folder.iterdir()))}.py"
        path.write_text(SOURCE.format_map({**PLAIN, **source}))
        self.launchers = [SimpleNamespace(config=config)]
        self.heuristic_type = f"HeuristicType.{source.get('kind', 'pointwise').upper()}"
        self.filename = str(path)
        self.fn = SimpleNamespace(__name__="triton_poi_fused_0")
        self.size_hints = {"x": 4096}

    def run(self, *_: Any, stream: int = 0, benchmark_run: bool = False) -> str:
        return f"launched on {stream} {benchmark_run}"


class CompiledFxGraph:
    """What this project uses of Inductor's: the key in its cache, and a call that empties the list of inputs."""

    def __init__(self, key: str | None = "k1", device: str = "cuda") -> None:
        self._fx_graph_cache_key, self.device_types = key, {device}

    def __call__(self, inputs: list[object]) -> str:
        inputs.clear()
        return "output"


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, kind in (
        ("triton.runtime.autotuner", Autotuner),
        ("torch._inductor.runtime.triton_heuristics", CachingAutotuner),
        ("torch._inductor.output_code", CompiledFxGraph),
    ):
        module = ModuleType(name)
        setattr(module, kind.__name__, kind)
        monkeypatch.setitem(sys.modules, name, module)


def note(tuner: Any, *args: Any, **kwargs: Any) -> TunedKernel:
    (one,) = note_all(lambda: tuner.run(*args, **kwargs))
    return one


def note_all(*rounds: Callable[[], object]) -> tuple[TunedKernel, ...]:
    notes = TuningNotes()
    for body in rounds:
        with notes.watch():
            body()
    return notes.kernels


def test_the_choice_is_noted_and_the_work_by_its_source_configurations_and_arguments() -> None:
    noted = note(Autotuner(), Tensor(8, 64), 64, grid=(8,))

    assert (noted.name, noted.config, noted.launches) == ("_norm_kernel", "BLOCK: 64, num_warps: 4", 1)
    assert re.fullmatch("[0-9a-f]{16}", noted.problem)
    other = note(Autotuner(1), Tensor(8, 64), n=64, grid=(8,))
    assert other == TunedKernel("_norm_kernel", noted.problem, "BLOCK: 128, num_warps: 4")


def test_a_grid_that_follows_from_the_choice_is_the_same_work() -> None:
    def grid(meta: dict[str, int]) -> tuple[int, ...]:
        return (meta["n"] // meta["BLOCK"],)

    first, second = (note(Autotuner(chosen), Tensor(8, 64), 64, grid=grid) for chosen in (0, 1))

    assert first.problem == second.problem


def _prune(configs: Any) -> Any:
    return configs[:1]


@pytest.mark.parametrize(
    ("tuner", "args", "grid"),
    [
        (Autotuner(key="k2"), (Tensor(8, 64), 64), (8,)),
        (Autotuner(blocks=(64, 32)), (Tensor(8, 64), 64), (8,)),
        (Autotuner(heuristic=lambda given: given["n"] % 32 == 0), (Tensor(8, 64), 64), (8,)),
        (Autotuner(pruned_by=_prune), (Tensor(8, 64), 64), (8,)),
        (Autotuner(), (Tensor(16, 64), 64), (8,)),
        (Autotuner(), (Tensor(8, 64, dtype="float16"), 64), (8,)),
        (Autotuner(), (Tensor(8, 64), 65), (8,)),
        (Autotuner(), (Tensor(8, 64), 64), (16,)),
    ],
    ids=["source", "configurations", "heuristic", "pruning", "shape", "dtype", "value", "grid"],
)
def test_other_work_is_another_problem(tuner: Autotuner, args: tuple[Any, ...], grid: tuple[int, ...]) -> None:
    assert note(tuner, *args, grid=grid).problem != note(Autotuner(), Tensor(8, 64), 64, grid=(8,)).problem


def test_launches_are_counted_by_round() -> None:
    tuner, other = Autotuner(), Autotuner()

    def body() -> None:
        for one in (tuner, other, tuner):
            one.run(Tensor(8, 64), 64, grid=(8,))

    # The first round also launches trials; a later one may only replay a graph.
    (noted,) = note_all(lambda: tuner.run(Tensor(9, 64), 64, grid=(8,)), body, lambda: None)

    assert noted.launches == 3


def _prune_by(limit: int) -> Callable[[Any], Any]:
    return lambda configs: configs[:limit]


def _prune_from(limit: int) -> Callable[..., Any]:
    def prune(configs: Any, first: int = limit) -> Any:
        return configs[first:]

    return prune


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("keys", (["n"], [])),
        ("reset_to_zero", ([], [0])),
        ("configs_top_k", (1.0, 0.5)),
        ("early_config_prune", (_prune_by(1), _prune_by(2))),
        ("early_config_prune", (_prune_from(1), _prune_from(2))),
        ("early_config_prune", tuple(functools.partial(_prune, first) for first in (1, 2))),
    ],
    ids=["keys", "reset", "top k", "closure", "default", "partial"],
)
def test_what_decides_the_choice_is_part_of_the_work(name: str, values: tuple[Any, Any]) -> None:
    first, second = Autotuner(), Autotuner()
    for tuner, value in zip((first, second), values, strict=True):
        setattr(tuner, name, value)

    noted, other = (note(tuner, Tensor(8, 64), 64, grid=(8,)) for tuner in (first, second))

    assert noted.problem != other.problem


def test_what_a_configuration_does_before_a_launch_is_part_of_the_work() -> None:
    hooked = Autotuner()
    hooked.configs[1].pre_hook = lambda given: given["n"]

    noted, other = (note(tuner, Tensor(8, 64), 64, grid=(8,)) for tuner in (hooked, Autotuner()))

    assert noted.problem != other.problem


def test_sets_in_code_are_the_same_in_every_process() -> None:
    program = (
        ""
        "prune = lambda configs: [one for one in configs if str(one) in {'a', 'b', 'c', 'd', 'e'}]\n"
        "from pytest_nsight.worker.tuned_work import describe_value\n"
        "print(describe_value(prune))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(said) == 1


def test_a_kernel_that_chooses_its_name_is_noted_by_that() -> None:
    tuner = Autotuner(launched=SimpleNamespace(name="mm_64x64"))

    assert note(tuner, Tensor(8, 64), 64, grid=(8,)).name == "mm_64x64"


def test_descriptors_and_lists_of_tensors_are_described_without_their_contents() -> None:
    first, second = (note(Autotuner(), Descriptor(Tensor(8, 64), block), 64, grid=(8,)) for block in (64, 128))
    several = note(Autotuner(), (Tensor(8, 64), Tensor(8, 64)), 64, grid=(8,))

    assert first.problem == second.problem
    assert several.problem != note(Autotuner(), (Tensor(8, 64), Tensor(9, 64)), 64, grid=(8,)).problem


def test_a_function_as_an_argument_is_its_code() -> None:
    functions = (SimpleNamespace(cache_key=key) for key in ("gelu", "relu"))
    first, second = (note(Autotuner(), Tensor(8, 64), one, grid=(8,)).problem for one in functions)

    assert first != second


def _of_another_version() -> Autotuner:
    tuner = Autotuner()
    del tuner.best_config
    return tuner


@pytest.mark.parametrize(
    ("tuner", "args"),
    [
        pytest.param(Autotuner(blocks=(64,)), (Tensor(8, 64), 64), id="one configuration"),
        pytest.param(Autotuner(), (object(), 64), id="an argument that nothing describes"),
        pytest.param(_of_another_version(), (Tensor(8, 64), 64), id="another version"),
    ],
)
def test_what_cannot_be_said_is_not_noted_and_runs_as_ever(tuner: Autotuner, args: tuple[Any, ...]) -> None:
    results: list[object] = []

    assert note_all(lambda: results.append(tuner.run(*args, grid=(8,)))) == ()
    assert results == ["launched"]


def test_of_a_case_whose_arguments_always_differ_nothing_is_kept() -> None:
    def body() -> None:
        for number in range(2 * MOST_KERNELS):
            Autotuner().run(Tensor(8, 64), number, grid=(8,))

    assert note_all(body) == ()


def test_where_the_source_lies_is_not_the_work(tmp_path: Path) -> None:
    sources = ({"user": "a", "line": 1}, {"user": "b", "line": 2})
    first, second = (note(CachingAutotuner(tmp_path, **source), Tensor(2, 2), stream=0) for source in sources)

    assert first == second


def test_a_template_of_inductor_is_left_to_its_graph(tmp_path: Path) -> None:
    tuner = CachingAutotuner(tmp_path, kind="template")

    assert note_all(lambda: tuner.run(Tensor(2, 2), stream=0)) == ()


@pytest.mark.parametrize(
    "how",
    [
        {"tf32": False},
        {"tile": 128},
        {"helper": "def combine(a, b): return a * b"},
        {"kind": "user_autotune", "head": "configs=[{'num_warps': 8}]"},
    ],
    ids=["constant", "tile", "helper", "configurations"],
)
def test_what_inductor_has_generated_otherwise_is_other_work(tmp_path: Path, how: dict[str, Any]) -> None:
    sources = ({"kind": how.get("kind", "pointwise")}, how)
    first, second = (note(CachingAutotuner(tmp_path, **source), Tensor(2, 2)) for source in sources)

    assert first.problem != second.problem


def test_a_graph_is_noted_by_its_key_and_inputs_and_counted() -> None:
    graph, call = CompiledFxGraph(), CompiledFxGraph.__call__

    noted = note_all(lambda: [graph([Tensor(2, 2)]), CompiledFxGraph()([Tensor(2, 2)])])

    (one,) = noted
    assert (one.name, one.config, one.launches) == ("Inductor", "", 2)
    assert CompiledFxGraph.__call__ is call


@pytest.mark.parametrize(
    ("graph", "inputs"),
    [(CompiledFxGraph("k2"), (Tensor(2, 2),)), (CompiledFxGraph(), (Tensor(4, 2),)), (CompiledFxGraph(), (4,))],
    ids=["graph", "shape", "size"],
)
def test_another_graph_or_other_inputs_are_other_work(graph: CompiledFxGraph, inputs: tuple[object, ...]) -> None:
    (one,), (other,) = note_all(lambda: CompiledFxGraph()([Tensor(2, 2)])), note_all(lambda: graph([*inputs]))

    assert one.problem != other.problem


@pytest.mark.parametrize(
    ("graph", "inputs"),
    [
        (CompiledFxGraph(device="cpu"), (Tensor(2, 2),)),
        (CompiledFxGraph(key=None), (Tensor(2, 2),)),
        (CompiledFxGraph(), (object(),)),
    ],
    ids=["on a processor", "that is not cached", "of an input that nothing describes"],
)
def test_a_graph_that_says_nothing_is_not_noted_and_runs_as_ever(
    graph: CompiledFxGraph, inputs: tuple[object, ...]
) -> None:
    results: list[object] = []

    assert note_all(lambda: results.append(graph([*inputs]))) == ()
    assert results == ["output"]


def test_a_round_that_captures_notes_no_graph_and_hides_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = make_torch(benchmark=False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    tuner, graph = Autotuner(), CompiledFxGraph()

    def body(*, is_capturing: bool) -> None:
        torch.cuda.is_current_stream_capturing = lambda: is_capturing
        tuner.run(Tensor(8, 64), 64, grid=(8,))
        graph([Tensor(2, 2)])

    noted = note_all(lambda: body(is_capturing=False), lambda: body(is_capturing=True))

    assert sorted(one.name for one in noted) == ["Inductor", "_norm_kernel"]


def test_calls_on_other_threads_count() -> None:
    def body() -> None:
        graphs = [CompiledFxGraph() for _ in range(8)]
        threads = [threading.Thread(target=graph, args=([Tensor(2, 2)],)) for graph in graphs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    (one,) = note_all(body)
    assert one.launches == 8


def test_one_unknown_graph_leaves_no_other_to_explain_what_was_launched() -> None:
    def body() -> None:
        CompiledFxGraph()([Tensor(2, 2)])
        CompiledFxGraph(key=None)([Tensor(2, 2)])

    assert note_all(body) == ()


def test_inductors_own_graphs_have_the_same_key_in_another_process(tmp_path: Path) -> None:
    """On a processor, where they are as well cached; both processes compile, each into a folder of its own."""
    pytest.importorskip("torch._inductor.output_code")
    program = (
        "import torch\n"
        "from torch._inductor.output_code import CompiledFxGraph\n"
        "from pytest_nsight.worker import autotuners, tuned_work\n"
        "call = CompiledFxGraph.__call__\n"
        "def as_cuda(graph, inputs):\n"
        "    print(tuned_work.describe_graph(graph, inputs))\n"
        "    graph.device_types = {'cuda'}\n"
        "    print(tuned_work.describe_graph(graph, inputs))\n"
        "    return call(graph, inputs)\n"
        "CompiledFxGraph.__call__ = as_cuda\n"
        "torch.compile(lambda a, b: torch.relu(a @ b) + 1)(torch.ones(64, 64), torch.ones(64, 64))\n"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / str(number))},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in range(2)
    ]

    assert said[0] == said[1]
    assert re.fullmatch(r"None\n\('Inductor', '[0-9a-f]{16}', ''\)\n", said[0])


def test_trials_of_inductors_tuner_are_no_launches_of_the_case(tmp_path: Path) -> None:
    tuner = CachingAutotuner(tmp_path)

    assert note_all(lambda: tuner.run(Tensor(2, 2), stream=7, benchmark_run=True)) == ()


def test_the_classes_are_as_they_were_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._inductor.runtime.triton_heuristics")
    before = Autotuner.run

    with pytest.raises(ZeroDivisionError), TuningNotes().watch():
        math.sqrt(1 / 0)

    assert Autotuner.run is before


def test_what_a_library_changes_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def patched(*_: Any, **__: Any) -> str:
        return "a library's own"

    with TuningNotes().watch():
        monkeypatch.setattr(Autotuner, "run", patched)

    assert Autotuner.run is patched
    monkeypatch.undo()


def test_only_the_first_warm_up_rounds_are_watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    board = Board()
    board.keep_time(monkeypatch)
    original, watched = Autotuner.run, []

    def body() -> None:
        watched.append(Autotuner.run is not original)
        Autotuner().run(Tensor(8, 64), 64, grid=(8,))

    RoundRunner(board, Silent(), Journal(tmp_path / "manifest.jsonl")).measure(
        MeasuredBody("a.py::t", "t", body, plan=RoundPlan(rounds=4, warmup=3))
    )

    assert watched == [True] * WATCHED_ROUNDS + [False] * 5
    (kernel,) = read_manifest(tmp_path / "manifest.jsonl").tuned["a.py::t"]
    assert kernel.config == "BLOCK: 64, num_warps: 4"


def test_tritons_own_autotuner_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    triton = pytest.importorskip("triton")
    jit = pytest.importorskip("triton.runtime.jit")
    configs = [triton.Config({"BLOCK": size}, num_warps=4) for size in (64, 128)]

    def make(fastest: int) -> Any:
        function = jit.JITFunction(_scale)
        function.run = lambda *_, **__: None
        times = iter([1.0, 2.0] if fastest == 0 else [2.0, 1.0])
        decorate = triton.autotune(configs, key=["n"], do_bench=lambda *_, **__: [next(times)] * 3)
        return decorate(function)

    first, second = (note(make(fastest), Tensor(8, 64), 512, grid=(1,), warmup=False) for fastest in (0, 1))

    assert first.problem == second.problem
    assert first.config.startswith("BLOCK: 64, num_warps: 4")
    assert second.config.startswith("BLOCK: 128, num_warps: 4")


def _scale(x, n, BLOCK):  # type: ignore[no-untyped-def]
    return x, n, BLOCK


def make_torch(*, is_initialized: bool = True, benchmark: bool = True) -> ModuleType:
    torch = ModuleType("torch")
    torch.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        is_initialized=lambda: is_initialized, is_current_stream_capturing=lambda: False
    )
    cudnn = SimpleNamespace(benchmark=benchmark, enabled=True, deterministic=False, allow_tf32=True)
    torch.backends = SimpleNamespace(cudnn=cudnn)  # type: ignore[attr-defined]
    return torch


def test_that_cudnn_chooses_by_time_is_noted_with_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", make_torch())

    settings = "enabled: True, deterministic: False, allow_tf32: True"
    assert note_all(lambda: None, lambda: None) == (TunedKernel("cuDNN", settings, ""),)


@pytest.mark.parametrize(
    "torch",
    [make_torch(is_initialized=False), make_torch(benchmark=False), ModuleType("torch")],
    ids=["no GPU", "by rules", "another version"],
)
def test_nothing_is_noted_of_a_cudnn_that_does_not_choose_by_time(
    torch: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)

    assert note_all(lambda: None) == ()
