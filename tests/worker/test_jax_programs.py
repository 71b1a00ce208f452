"""JAX's programs with matrix products are noted when they are compiled, by JAX's own key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_nsight.model.identity import TunedKernel
from pytest_nsight.worker.autotuners import TuningNotes
from pytest_nsight.worker.jax_programs import JaxPrograms

PRODUCT = "%0 = stablehlo.dot_general %a, %b"
GPU = SimpleNamespace(platform="gpu")
FOLDER = "xla_gpu_per_fusion_autotune_cache_dir"


def options_of(level: int = 4, folder: str = "") -> SimpleNamespace:
    """XLA's options of a compilation."""
    debug = SimpleNamespace(level=level, **{FOLDER: folder})
    return SimpleNamespace(executable_build_options=SimpleNamespace(debug_options=debug))


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


def compile_one(compiler: ModuleType, text: str = PRODUCT, options: Any = None, backend: Any = GPU) -> Any:
    given = options or options_of()
    return compiler.compile_or_get_cached(backend, Computation(text), [], given, [], pgle_profiler=None)


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
    return programs.notes


def test_another_program_or_other_options_are_other_work(compiler: ModuleType) -> None:
    found = [noted(compiler), noted(compiler, text=f"{PRODUCT}, %c"), noted(compiler, options=options_of(0))]

    assert len({one.problem for (one,) in found}) == 3
    assert noted(compiler) == found[0]


def test_where_a_cache_lies_is_not_the_work(compiler: ModuleType) -> None:
    options = options_of(folder="/caches/of/this/job")

    assert noted(compiler, options=options) == noted(compiler)
    assert getattr(options.executable_build_options.debug_options, FOLDER) == "/caches/of/this/job"


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
    assert programs.notes == ()
    programs.attach(ModuleType("jax._src.compiler"))


def test_a_jax_that_names_its_arguments_compiles_as_ever(compiler: ModuleType) -> None:
    programs = programs_of(compiler)
    given = {"backend": GPU, "computation": Computation(PRODUCT), "devices": [], "compile_options": options_of()}
    compiler.compile_or_get_cached = lambda **named: sorted(named)  # type: ignore[attr-defined]
    programs.attach(compiler)

    assert compiler.compile_or_get_cached(**given) == sorted(given)
    assert len(programs.notes) == 1


def test_jaxs_own_key_is_the_same_in_another_process(tmp_path: Path) -> None:
    """On a processor that passes for a GPU; one process has a cache of compilations, the other one has none."""
    pytest.importorskip("jax")
    program = """
import jax, jax._src.compiler as compiler
from pytest_nsight.worker.jax_programs import JaxPrograms

class Gpu:
    platform = "gpu"
    def __init__(self, backend):
        self.backend = backend
    def __getattr__(self, name):
        return getattr(self.backend, name)

compile_program = compiler.compile_or_get_cached
compiler.compile_or_get_cached = lambda backend, *args, **kwargs: compile_program(backend.backend, *args, **kwargs)
programs = JaxPrograms()
programs.attach(compiler)
noted = compiler.compile_or_get_cached
compiler.compile_or_get_cached = lambda backend, *args, **kwargs: noted(Gpu(backend), *args, **kwargs)
x = jax.numpy.ones((64, 64))
for body in (lambda a: jax.numpy.tanh(a) @ a, lambda a: jax.numpy.tanh(a) + a):
    jax.block_until_ready(jax.jit(body)(x))
print(programs.notes)
"""
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "JAX_PLATFORMS": "cpu", **cache},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, cache in (("1", {}), ("2", {"JAX_COMPILATION_CACHE_DIR": str(tmp_path)}))
    ]

    assert said[0] == said[1]
    assert said[0].count("TunedKernel(") == 1
