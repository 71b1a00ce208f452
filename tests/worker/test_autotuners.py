"""What autotuners choose is noted in the first warm-up rounds, and never while a round is measured."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_nsight.model.values import TunedKernel
from pytest_nsight.protocol.manifest import read_manifest
from pytest_nsight.protocol.manifest_events import Journal
from pytest_nsight.worker.autotuners import WATCHED_ROUNDS, watch_autotuners
from pytest_nsight.worker.rounds import RoundPlan, Stopwatch
from tests.worker.board import Board, Silent

SOURCE = """\
def triton_tem_mm_0(a):
    BLOCK_M : tl.constexpr = 64
    EVEN_K1 : tl.constexpr = True
    xnumel = 4096
"""


class Tensor:
    def __init__(self, *shape: int, dtype: str = "float32") -> None:
        self.shape, self.dtype = shape, dtype

    def stride(self) -> tuple[int, ...]:
        return (self.shape[-1], 1)


class Autotuner:
    """What this project uses of Triton's: the configurations, the function, and the one that was chosen."""

    def __init__(self, chosen: int = 0, key: str = "k1", configs: tuple[str, ...] = ("BLOCK: 64", "BLOCK: 128")):
        self.configs = configs
        self.arg_names = ["x", "n", "BLOCK"]
        # Heuristics stand between the two.
        self.fn = SimpleNamespace(fn=SimpleNamespace(cache_key=key, __name__="_norm_kernel"))
        self.best_config = configs[chosen]

    def run(self, *_: Any, **__: Any) -> str:
        return "launched"


class CachingAutotuner:
    """What this project uses of Inductor's."""

    def __init__(self, config: str = "XBLOCK: 256", source: str = SOURCE, kind: str = "HeuristicType.POINTWISE"):
        self.launchers = [SimpleNamespace(config=config)]
        self.fn = SimpleNamespace(src=source, __name__="triton_poi_fused_0")
        self.heuristic_type, self.size_hints = kind, {"x": 4096}

    def run(self, *_: Any, stream: int = 0, benchmark_run: bool = False) -> str:
        return f"launched on {stream} {benchmark_run}"


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, kind in (
        ("triton.runtime.autotuner", Autotuner),
        ("torch._inductor.runtime.triton_heuristics", CachingAutotuner),
    ):
        module = ModuleType(name)
        setattr(module, kind.__name__, kind)
        monkeypatch.setitem(sys.modules, name, module)


def note(tuner: Any, *args: Any, **kwargs: Any) -> TunedKernel:
    found: set[TunedKernel] = set()
    with watch_autotuners(found):
        tuner.run(*args, **kwargs)
    (one,) = found
    return one


def test_the_choice_is_noted_and_the_work_by_its_source_configurations_and_arguments() -> None:
    noted = note(Autotuner(), Tensor(8, 64), 64, grid=(8,))

    assert (noted.name, noted.config) == ("_norm_kernel", "BLOCK: 64")
    assert re.fullmatch("[0-9a-f]{16}", noted.problem)
    assert note(Autotuner(1), Tensor(8, 64), n=64, grid=(4,)) == TunedKernel(
        "_norm_kernel", noted.problem, "BLOCK: 128"
    )


@pytest.mark.parametrize(
    ("tuner", "args"),
    [
        (Autotuner(key="k2"), (Tensor(8, 64), 64)),
        (Autotuner(configs=("BLOCK: 64", "BLOCK: 32")), (Tensor(8, 64), 64)),
        (Autotuner(), (Tensor(16, 64), 64)),
        (Autotuner(), (Tensor(8, 64, dtype="float16"), 64)),
        (Autotuner(), (Tensor(8, 64), 65)),
    ],
    ids=["source", "configurations", "shape", "dtype", "value"],
)
def test_other_work_is_another_problem(tuner: Autotuner, args: tuple[Any, ...]) -> None:
    assert note(tuner, *args).problem != note(Autotuner(), Tensor(8, 64), 64).problem


def test_a_kernel_with_one_configuration_is_not_tuned() -> None:
    found: set[TunedKernel] = set()
    with watch_autotuners(found):
        assert Autotuner(configs=("BLOCK: 64",)).run(Tensor(8, 64), 64) == "launched"

    assert not found


def test_the_constants_of_an_inductor_template_belong_to_its_choice() -> None:
    other = SOURCE.replace("= 64", "= 128")
    first, second = (
        note(CachingAutotuner("num_warps: 4", text, "HeuristicType.TEMPLATE"), Tensor(2, 2), stream=0)
        for text in (SOURCE, other)
    )

    assert first.problem == second.problem
    assert first.config == "num_warps: 4, BLOCK_M : tl.constexpr = 64, EVEN_K1 : tl.constexpr = True"
    assert "BLOCK_M : tl.constexpr = 128" in second.config
    # Of any other kernel they are part of what it does.
    assert len({note(CachingAutotuner(source=text), Tensor(2, 2)).problem for text in (SOURCE, other)}) == 2


def test_trials_of_inductors_tuner_are_no_launches_of_the_case() -> None:
    found: set[TunedKernel] = set()
    with watch_autotuners(found):
        assert CachingAutotuner().run(Tensor(2, 2), stream=7, benchmark_run=True) == "launched on 7 True"

    assert not found


def test_an_autotuner_of_another_version_runs_as_ever_and_is_not_noted() -> None:
    tuner = Autotuner()
    del tuner.best_config
    found: set[TunedKernel] = set()

    with watch_autotuners(found):
        assert tuner.run(Tensor(8, 64), 64) == "launched"

    assert not found


def test_the_classes_are_as_they_were_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._inductor.runtime.triton_heuristics")
    before = Autotuner.run

    with pytest.raises(ZeroDivisionError), watch_autotuners(set()):
        math.sqrt(1 / 0)

    assert Autotuner.run is before


def test_only_the_first_warm_up_rounds_are_watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    board = Board()
    board.keep_time(monkeypatch)
    original, watched = Autotuner.run, []

    def body() -> None:
        watched.append(Autotuner.run is not original)
        Autotuner().run(Tensor(8, 64), 64)

    Stopwatch(board, Silent(), Journal(tmp_path / "manifest.jsonl")).measure(
        "a.py::t", "t", body, None, RoundPlan(rounds=4, warmup=3)
    )

    assert watched == [True] * WATCHED_ROUNDS + [False] * 5
    (kernel,) = read_manifest(tmp_path / "manifest.jsonl").tuned["a.py::t"]
    assert kernel.config == "BLOCK: 64"


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
