"""What a revision is called, and what git remembers of worktrees: the plugin's is forgotten, and no other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_nsight.controller.trees.git_revision import find_commit
from pytest_nsight.model.errors import UsageError


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits, c0 and c1, of the same file."""
    folder = tmp_path / "repository"
    (folder / "lib").mkdir(parents=True)
    git(folder, "init", "-q")
    for name in ("c0", "c1"):
        (folder / "lib/file").write_text(name)
        git(folder, "add", "lib/file")
        git(folder, "commit", "-qm", f"{name}: a commit")
    git(folder, "tag", "-a", "-m", "old", "old", "HEAD~1")
    return folder


def find(repository: Path, name: str) -> str:
    return find_commit(repository, name, "--nsight-against", "do something else").commit


@pytest.mark.parametrize("name", ["HEAD~1", "old", ":/c0", "HEAD^{/c0}", "@~1"])
def test_whatever_git_takes_for_a_commit_names_it(repository: Path, name: str) -> None:
    assert find(repository, name) == git(repository, "rev-parse", "HEAD~1")


@pytest.mark.parametrize(
    "name", ["", "-x", "--all", "HEAD^{tree}", "HEAD:lib", "HEAD~99", ":/c7", "^HEAD", "HEAD~1..HEAD"]
)
def test_what_is_no_commit_is_named(repository: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"git knows no such commit; fetch it") as refusal:
        find(repository, name)

    assert str(refusal.value).startswith(f"--nsight-against {name}: ")
