"""What the tests on a GPU share: whether there is one, and a project that is run as users run theirs."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.collectors.nsys.find import Installation
from tests.collectors.real import environment, require_nsys

PROGRAMS = Path(__file__).parent / "programs"

Json = dict[str, Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In one process, as two sessions on one board would disturb each other's times; and not in the quick suite.

    The foreign programs are no tests that start sessions: workers of one run them, and side by side in a pass
    without times.
    """
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            if here / "foreign" not in item.path.parents and item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group("nsys"))
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def gpu() -> Installation:
    """The nsys to record with. Without it or a GPU tests are skipped, or fail if PYTEST_NSIGHT_REQUIRE_GPU is 1."""
    lacking = [f"there is no {name}" for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
    if not lacking:
        import torch  # noqa: PLC0415 - as late as the tests that need it

        lacking += [] if torch.cuda.is_available() else ["torch sees no CUDA device"]
    if lacking and os.environ.get("PYTEST_NSIGHT_REQUIRE_GPU") == "1":
        pytest.fail(f"PYTEST_NSIGHT_REQUIRE_GPU=1, but {', '.join(lacking)}")
    if lacking:
        pytest.skip(f"needs a CUDA GPU with torch, Triton and nsys: {', '.join(lacking)}")
    return require_nsys()


@dataclass
class Project:
    """A folder of perf tests.

    Attributes:
        folder: where it is.
        said: output of the last run.
        result: what the last run wrote as JSON.
        python: interpreter of the runs.
    """

    folder: Path
    said: str = ""
    result: Json = field(default_factory=dict)
    python: str = sys.executable

    def pytest(self, *arguments: str, **environ: str) -> int:
        """Runs `pytest --nsight` with these arguments; returns its code."""
        written = self.folder / "result.json"
        written.unlink(missing_ok=True)
        command = [self.python, "-m", "pytest", "--nsight", "-v", f"--nsight-json={written}", *arguments]
        done = subprocess.run(
            command,
            cwd=self.folder,
            # Compiling in processes of its own would only add starts of processes.
            env=environment(TORCHINDUCTOR_COMPILE_THREADS="1", **environ),
            capture_output=True,
            text=True,
            check=False,
        )
        self.said = done.stdout + done.stderr
        self.result = json.loads(written.read_text()) if written.exists() else {}
        return done.returncode

    def subject(self, case: str, part: str = "") -> Json:
        """What the result says of the case whose id ends so."""
        found = [each for each in self._subjects() if each["case"].endswith(case) and each["part"] == part]
        assert len(found) == 1, f"{len(found)} subjects {case!r} {part!r}\n{self.said}"
        return found[0]

    def verdicts(self) -> dict[str, str]:
        """Test -> its verdict, of whole cases."""
        return {one["case"].partition("::")[2]: one["verdict"] for one in self._subjects() if not one["part"]}

    def _subjects(self) -> list[Json]:
        measured = [benchmark["extra_info"]["nsight"] for benchmark in self.result.get("benchmarks", ())]
        return [*measured, *self.result.get("nsight", {}).get("unmeasured", ())]

    def run_folder(self) -> Path:
        """What the last session kept of its first run."""
        (*_, session) = sorted((self.folder / ".nsight").glob("2*"))
        return session / "run-001"


def make_project(folder: Path, program: str) -> Project:
    """A project whose only module is a program of this folder."""
    shutil.copyfile(PROGRAMS / f"{program}.py", folder / f"test_{program}.py")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:randomly -p no:cacheprovider\n")
    return Project(folder)
