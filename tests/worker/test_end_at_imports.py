"""A worker that nobody waits for ends where a module is imported, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.collectors.real import environment

WORKER = """
import sys, threading
from pathlib import Path
from pytest_nsight.protocol.job import Assignment
from pytest_nsight.protocol.parent_pipe import PipeFromParent, PipeToWorker
from pytest_nsight.worker.end_at_imports import EndAtImports

controller, parent_pipe = PipeToWorker(Path()), PipeFromParent(Path())
EndAtImports(parent_pipe).watch()
{}
sys.exit(7)
"""
FUNCTION = """
def build():
    import colorsys
controller.close()
build()
"""
THREAD = """
builds = threading.Event()
builder = threading.Thread(target=builds.wait)
builder.start()
controller.close()
import colorsys
builds.set()
"""
ASSIGNED = """
controller.send(Assignment(("test_a.py::test_a",)))
parent_pipe.wait_for_assignment()
controller.close()
import colorsys
"""


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        pytest.param("controller.close(); import colorsys", True, id="a module"),
        pytest.param("controller.close(); import package", True, id="a module of a module"),
        pytest.param(
            "controller.close(); import importlib; importlib.import_module('colorsys')", True, id="by name"
        ),
        pytest.param("import colorsys", False, id="wanted"),
        pytest.param("controller.close(); import json", False, id="imported before"),
        pytest.param(FUNCTION, False, id="a function may hold a lock"),
        pytest.param(THREAD, False, id="a thread may hold a lock"),
        pytest.param(ASSIGNED, False, id="assigned"),
    ],
)
def test_a_worker_that_nobody_waits_for_ends_at_an_import(code: str, ends: bool, tmp_path: Path) -> None:
    (tmp_path / "package.py").write_text("import colorsys\nopen('imported', 'x')\n")

    command = [sys.executable, "-c", WORKER.format(code)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), check=False)

    assert done.returncode == (0 if ends else 7)
    assert not (tmp_path / "imported").exists()
