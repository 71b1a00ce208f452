"""CuPy, JAX, Numba and cuda.core in an environment without torch: saved, unchanged, and a regression found."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from pytest_nsight.collectors.nsys.find import Installation
from tests.gpu.conftest import Project, make_project
from tests.gpu.foreign.conftest import lack

LEFT_OUT = ("torch", "triton", "functorch", "liger", "fla", "timm", "cut_cross_entropy")
"""Beginnings of the names of torch, and of what needs it."""

PASSING = {"UNCHANGED", "IDENTICAL", "INCONCLUSIVE"}
"""On an H100 rounds of JAX's matrix products fall into two modes, 5 to 9 % apart."""


@pytest.fixture(scope="module")
def python(gpu: Installation, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that finds everything that is installed here, but for torch."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for place in sys.path:
        if not place.endswith("-packages") and place not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
            continue
        for entry in Path(place).iterdir() if Path(place).is_dir() else ():
            if not entry.name.startswith((*LEFT_OUT, "__pycache__")) and not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry.resolve())
    path = str(folder / "bin/python")
    found = subprocess.run([path, "-c", "import pytest_nsight, torch"], capture_output=True, text=True, check=False)
    assert "No module named 'torch'" in found.stderr, found.stderr
    return path


FRAMEWORKS = {"cupy": "cupy", "jax": "jax", "numba": "numba_cuda", "cuda_core": "cuda.core"}
"""Program -> the module that it needs."""


@pytest.fixture(scope="module", params=FRAMEWORKS)
def saved(request: pytest.FixtureRequest, python: str, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project of a framework with its baselines."""
    if not _is_installed(FRAMEWORKS[request.param]):
        lack(f"{FRAMEWORKS[request.param]} is not installed")
    project = make_project(tmp_path_factory.mktemp(request.param), f"perf_{request.param}")
    project.python = python
    assert check(project, "--nsight-save") == 0, project.said
    return project


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def check(project: Project, *options: str, **environ: str) -> int:
    """Runs the project; returns its code. XLA keeps its choices: otherwise it times kernels in each process."""
    caches = {
        "JAX_COMPILATION_CACHE_DIR": str(project.folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    return project.pytest("--nsight-collector=nsys", *options, **caches, **environ)


def test_what_did_not_change_passes(saved: Project) -> None:
    assert check(saved) == 0, saved.said
    verdicts = saved.verdicts()
    assert len(verdicts) == 3
    assert set(verdicts.values()) <= PASSING, saved.said


@pytest.mark.parametrize("place", [0, -1])
def test_a_case_that_does_twice_as_much_fails_and_no_other(saved: Project, place: int) -> None:
    spoiled = sorted(saved.verdicts())[place]

    code = check(saved, SPOILED=spoiled.removeprefix("test_"))

    assert code == pytest.ExitCode.TESTS_FAILED, saved.said
    verdicts = saved.verdicts()
    assert verdicts.pop(spoiled) in ("REGRESSION", "STRUCTURE"), saved.said
    assert set(verdicts.values()) <= PASSING, saved.said
