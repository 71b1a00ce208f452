"""README.md: its sample output is what its commands print."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAMPLES = re.findall(
    r"^```console\n\$ pytest (--nsight --nsight-replay (?:[^\n]|(?<=\\)\n)+)\n(.*?)^```",
    (ROOT / "README.md").read_text(encoding="utf-8"),
    re.DOTALL | re.MULTILINE,
)
LEFT_OUT = {"...", "…", ""}

pytestmark = pytest.mark.slow


def test_the_readme_shows_a_slower_kernel_and_a_lost_fusion() -> None:
    assert [re.findall(r"sessions/(\w+)", command) for command, _ in SAMPLES] == [
        ["slow", "baselines"],
        ["unfused", "baselines"],
    ]


@pytest.mark.parametrize(("command", "sample"), SAMPLES)
def test_a_sample_is_what_its_command_prints(command: str, sample: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    # A copy, so that no session of the repository's own is made or waited for.
    for name in ("kernels", "perf_tests", "tests/data/sessions"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *shlex.split(command.replace("\\\n", ""))],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "80", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    printed = iter(done.stdout.splitlines())

    assert done.returncode == 1, done.stderr
    missing = [line for line in sample.splitlines() if line not in LEFT_OUT and line not in printed]
    assert missing == []
