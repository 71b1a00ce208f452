"""JAX's programs with matrix products are noted when they are compiled, by JAX's own key."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_nsight.model.identity import TunedKernel
from pytest_nsight.worker.autotuners import TuningNotes
from pytest_nsight.worker.jax_programs import JaxPrograms

PRODUCT = "%0 = stablehlo.dot_general %a, %b"
GPU = SimpleNamespace(platform="gpu")


class Computation:
    """A module of MLIR."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.operation = SimpleNamespace(get_asm=lambda **_: text)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """JAX's, with its key of a program: the program's text and options."""
    for name in ("jax", "jax._src", "jax._src.cache_key"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    key = sys.modules["jax._src.cache_key"]
    key.get = lambda computation, _, options, __: f"{computation.text} {options}"  # type: ignore[attr-defined]
    sys.modules["jax._src"].cache_key = key  # type: ignore[attr-defined]
    module = ModuleType("jax._src.compiler")
    module.compile_or_get_cached = (  # type: ignore[attr-defined]
        lambda _backend, computation, _devices, _options, *_args, **_kwargs: f"compiled {computation.text}"
    )
    return module


def compile_one(compiler: ModuleType, text: str = PRODUCT, options: str = "", backend: Any = GPU) -> Any:
    return compiler.compile_or_get_cached(backend, Computation(text), [], options, [], pgle_profiler=None)


def programs_of(compiler: ModuleType) -> JaxPrograms:
    programs = JaxPrograms()
    programs.attach(compiler)
    return programs


def test_a_program_that_a_warm_up_round_compiles_is_noted(compiler: ModuleType) -> None:
    programs = programs_of(compiler)
    notes = TuningNotes(programs)
    # Compiled only once in a process, so whether it is here depends on the tests before.
    compile_one(compiler, f"reference {PRODUCT}")

    with notes.watch():
        assert compile_one(compiler) == f"compiled {PRODUCT}"
    with notes.watch():
        pass

    (kernel,) = notes.kernels
    assert (kernel.name, kernel.config) == ("XLA", "")
    programs.forget()
    assert notes.kernels == ()


def test_a_program_that_the_test_compiles_before_it_is_measured_is_noted(compiler: ModuleType) -> None:
    programs = programs_of(compiler)

    compile_one(compiler)

    (kernel,) = TuningNotes(programs).kernels
    assert kernel.name == "XLA"


def noted(compiler: ModuleType, **how: Any) -> tuple[TunedKernel, ...]:
    programs = JaxPrograms()
    original = compiler.compile_or_get_cached
    programs.attach(compiler)
    compile_one(compiler, **how)
    compiler.compile_or_get_cached = original  # type: ignore[attr-defined]
    return programs.kernels


def test_another_program_or_other_options_are_other_work(compiler: ModuleType) -> None:
    found = [noted(compiler), noted(compiler, text=f"{PRODUCT}, %c"), noted(compiler, options="fast")]

    assert len({one.problem for (one,) in found}) == 3
    assert noted(compiler) == found[0]


@pytest.mark.parametrize(
    "how",
    [{"text": "%0 = stablehlo.add %dot_sum, %b"}, {"backend": SimpleNamespace(platform="cpu")}],
    ids=["without a product", "on a processor"],
)
def test_what_xla_compiles_without_a_choice_is_not_noted(compiler: ModuleType, how: dict[str, Any]) -> None:
    assert noted(compiler, **how) == ()


def test_another_version_of_jax_compiles_as_ever(compiler: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules["jax._src.cache_key"], "get")
    programs = programs_of(compiler)

    assert compile_one(compiler) == f"compiled {PRODUCT}"
    assert programs.kernels == ()
    programs.attach(ModuleType("jax._src.compiler"))
