"""`pytest-nsight run` on a real GPU: the tools' own numbers come back, and a lost fusion fails by name."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

import pytest

from pytest_nsight.collectors.nsys.find import Installation
from tests.collectors.real import environment
from tests.gpu.conftest import PROGRAMS, Json, Project

SCRIPT = "bench_tools.py"
OPTIONS = ("--nsight-collector=nsys", "--nsight-no-canaries", "--nsight-runs=1", "--nsight-rounds=20")


@dataclass
class ScriptProject(Project):
    """A folder with one benchmark script.

    Attributes:
        script: its name.
    """

    script: str = SCRIPT

    def run(self, *options: str, **environ: str) -> int:
        """Runs `pytest-nsight run` on it; returns its code."""
        written = self.folder / "result.json"
        written.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest_nsight.cli", "run", "-v", f"--nsight-json={written}", *options]
        done = subprocess.run(
            [*command, "--", sys.executable, self.script],
            cwd=self.folder,
            env=environment(**environ),
            capture_output=True,
            text=True,
            check=False,
        )
        self.said = done.stdout + done.stderr
        self.result = json.loads(written.read_text()) if written.exists() else {}
        return done.returncode

    def first_output(self) -> str:
        """What the script printed in the first pass of the last session."""
        session = max((self.folder / ".nsight").glob("2*"))
        return (session / "first-pass" / "worker.log").read_text()

    def median_ns(self, case: str) -> float:
        """Kernel time of a case in the last session."""
        found: list[Json] = [one for one in self.result["benchmarks"] if one["fullname"].endswith(f"::{case}")]
        assert len(found) == 1, self.said
        return float(found[0]["stats"]["median"]) * 1e9


@pytest.fixture(scope="module")
def saved(gpu: Installation, tmp_path_factory: pytest.TempPathFactory) -> ScriptProject:
    folder = tmp_path_factory.mktemp("scripts")
    shutil.copyfile(PROGRAMS / SCRIPT, folder / SCRIPT)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:randomly -p no:cacheprovider\n")
    project = ScriptProject(folder)
    assert project.run(*OPTIONS, "--nsight-save") == 0, project.said
    return project


def number(text: str, name: str) -> float:
    (found,) = re.findall(rf"^{name} ([\d.e+-]+)$", text, re.MULTILINE)
    return float(found)


def test_the_script_gets_the_tools_own_numbers_and_the_gate_measures_the_same_kernels(saved: ScriptProject) -> None:
    output = saved.first_output()

    assert 0.7 < number(output, "milliseconds") * 1e6 / saved.median_ns("with_triton") < 1.5
    assert 0.7 < number(output, "seconds") * 1e9 / saved.median_ns("add[large]") < 1.5
    assert 0.7 < number(output, "negated") * 1e6 / saved.median_ns("module") < 1.5


def test_a_lost_fusion_fails_both_tools_cases_and_no_other(saved: ScriptProject) -> None:
    options = (*OPTIONS, "--nsight-save", "--nsight-keep", f"--nsight-baselines={saved.folder / 'other'}")
    assert saved.run(*options, SPOILED="1") == 0, saved.said
    session = max((saved.folder / ".nsight").glob("2*"))

    code = saved.run(f"--nsight-replay={os.path.relpath(session, saved.folder)}")

    assert code == pytest.ExitCode.TESTS_FAILED, saved.said
    for case in ("with_triton", "add[large]"):
        subject = saved.subject(f"::{case}")
        assert subject["verdict"] == "STRUCTURE", saved.said
        assert "launches gained, 1 -> 2 per round" in subject["sentence"]
    assert saved.subject("::module")["verdict"] not in ("STRUCTURE", "REGRESSION"), saved.said
