"""From an empty repository to a merged change: set up, save, lose a fusion, accept it, merge, look back."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_nsight.baselines.baseline_file import read_file

pytestmark = [
    # Longer than other slow tests, and it must run in CI.
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the package of the story needs torch"),
]

PACKAGE = """
import torch


def rms_norm(x, weight):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)
"""
UNFUSED = """
import torch


def rms_norm(x, weight):
    # Accumulates in double precision.
    x = x.double()
    return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight).float()
"""
PERF_TEST = """
import pytest
import torch

from tinynorm import rms_norm


@pytest.mark.nsight
def test_norm(nsight):
    x = torch.randn(256, 256)
    y = nsight(rms_norm, x, torch.ones(256))
    assert y.shape == x.shape
"""
CASE = "perf_tests/test_norm.py::test_norm"
REASON = "accumulate in double precision"


class Repository:
    """A user's repository, used through the commands that a user types."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def type(self, *command: str, code: int = 0) -> str:
        """What a command prints, after a check of its exit code."""
        environ = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.root.parent),
            "COLUMNS": "200",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        done = subprocess.run(
            command, cwd=self.root, env=environ, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def commit(self, message: str) -> str:
        self.type("git", "add", "--all")
        self.type("git", "commit", "--quiet", "--message", message)
        return self.type("git", "rev-parse", "HEAD").strip()

    def gate(self, *options: str, code: int = 0) -> str:
        return self.type("pytest", "--nsight", "--nsight-rounds=10", *options, "perf_tests/test_norm.py", code=code)

    def stored(self) -> set[str]:
        """The ids of all stored runs."""
        (path,) = (self.root / "baselines").glob("*/*test_norm.json")
        return {run.run for runs in read_file(path).values() for run in runs}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """An empty repository with a small package in it."""
    (tmp_path / "project" / "tinynorm").mkdir(parents=True)
    found = Repository(tmp_path / "project")
    (found.root / "tinynorm" / "__init__.py").write_text(PACKAGE)
    (found.root / "conftest.py").touch()
    (found.root / ".gitignore").write_text("__pycache__/\n")
    found.type("git", "init", "--quiet", "--initial-branch=main")
    found.type("git", "config", "user.name", "Somebody")
    found.type("git", "config", "user.email", "somebody@example.org")
    found.commit("A package")
    return found


def rows(text: str, *words: Sequence[str] | str) -> list[str]:
    return [line for line in text.splitlines() if all(word in line for word in words)]


def test_from_an_empty_repository_to_a_merged_change(repository: Repository) -> None:
    # Set up, and save on the main branch.
    assert "created   .gitattributes" in repository.type("pytest-nsight", "init")
    (repository.root / "perf_tests" / "test_norm.py").write_text(PERF_TEST)
    measured = repository.commit("Perf tests")
    assert "test_norm.json" in repository.gate("--nsight-save", "--nsight-runs=1")
    repository.commit("Baselines")
    first = repository.stored()

    # A pull request loses the fusion: red, and the comment says what happened and what to type.
    repository.type("git", "switch", "--quiet", "--create", "precise")
    (repository.root / "tinynorm" / "__init__.py").write_text(UNFUSED)
    changed = repository.commit("Accumulate in double precision")
    red = repository.gate("--nsight-markdown=.nsight/comment.md", code=1)
    comment = (repository.root / ".nsight" / "comment.md").read_text()

    assert f"STRUCTURE {CASE} - launches changed, 1 -> " in red
    assert re.match(r"<!-- pytest-nsight: .* -->\n\*\*failed\*\*, 1 verdict: .*1 structure change\n", comment)
    assert "as when a fusion is lost" in comment
    assert "\n1 → 0  operator rms_norm\n" in comment
    assert "0 → 1  operator mean" in comment
    accept = f'pytest --nsight --nsight-save --nsight-reason "why" {CASE}'
    check = f"pytest --nsight --nsight-against {measured[:10]} {CASE}"
    for text in (one.replace(" \\\n    ", " ") for one in (red, comment)):
        assert accept in text
        assert check in text
        assert f"from commit {measured[:7]}" in text

    # The change is intended. It is accepted on the branch, with a reason: green.
    saved = repository.gate("--nsight-save", "--nsight-runs=1", f"--nsight-reason={REASON}")
    repository.commit("Accept the cost of double precision")
    accepted = repository.stored() - first
    green = repository.gate()
    assert re.search(r"test_norm +\d\S* \S+ +\d\S* \S+ +[+-]\S+ % +SAVED", saved), (
        "the stored time, the new one, the change"
    )
    assert "1 -> 0  operator rms_norm" in saved
    assert f"note: stored with the reason: {REASON}" in saved
    assert "0 regressions" in green
    assert "structure change" not in green

    # Meanwhile somebody else saves on main. Both have added runs at the same place: they merge by themselves.
    repository.type("git", "switch", "--quiet", "main")
    repository.gate("--nsight-save", "--nsight-runs=1", "--nsight-reason=another board")
    repository.commit("More baselines")
    theirs = repository.stored() - first
    repository.type("git", "merge", "--quiet", "--no-edit", "precise")
    assert repository.type("git", "status", "--short") == ""
    assert len(first) == len(accepted) == len(theirs) == 1
    assert repository.stored() == first | accepted | theirs

    # Later: why did the time of this case change?
    history = repository.type("pytest-nsight", "history", "test_norm")
    (row,) = rows(history, f"stored: {REASON}")
    assert changed[:7] in row
    assert len(rows(history, "stored")) == 3
    page = repository.root / ".nsight" / "history.html"
    repository.type("pytest-nsight", "history", "test_norm", "--html", str(page))
    assert f"<td>stored: {REASON}</td>" in page.read_text()
    assert REASON in repository.type("pytest-nsight", "baselines", "show", "test_norm")
