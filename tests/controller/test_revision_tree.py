"""A revision's tree on disk, and the settings that its pytest takes."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_nsight.controller.trees.git_revision import find_commit
from pytest_nsight.controller.trees.revision_tree import Build, Tree, Workspace
from pytest_nsight.model.errors import UsageError


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "protocol.file.allow=always")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit(folder: Path, files: Mapping[str, bytes]) -> str:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    git(folder, "add", "--all")
    git(folder, "commit", "-qm", "a commit")
    return git(folder, "rev-parse", "HEAD")


def make_repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


def prepare(repository: Path, name: str, command: str = "", ini: Path | None = None) -> tuple[Tree, Tree]:
    """This tree and the revision's, which stays on disk."""
    workspace = Workspace(find_commit(repository, name, "--nsight-against", ""), repository / ".nsight/session")
    this, other = workspace.prepare(repository, ini, repository, (), Build(command, 60.0))
    return this, other


@pytest.mark.parametrize("name", ["setup.cfg", "tox.ini", "pyproject.toml"])
def test_a_file_that_holds_no_settings_of_pytest_may_be_no_utf_8(repository: Path, name: str) -> None:
    commit(repository, {name: b"[metadata]\nauthor = Ren\xe9\n"})

    _, tree = prepare(repository, "HEAD", ini=repository / name)

    assert tree.arguments[-1] == str(repository / ".nsight/session/against.ini")


def test_settings_that_pytest_cannot_read_are_named(repository: Path) -> None:
    commit(repository, {"setup.cfg": b"[metadata]\nauthor = Ren\xe9\n[tool:pytest]\naddopts = -v\n"})

    with pytest.raises(UsageError) as refusal:
        prepare(repository, "HEAD")

    assert str(refusal.value) == (
        "--nsight-against HEAD: pytest cannot read its settings there, since line 2 of setup.cfg is no UTF-8; give "
        "a commit in which it is, or -c with a file outside of the repository"
    )


def test_the_settings_of_the_revision_are_found(repository: Path) -> None:
    commit(repository, {"setup.cfg": "[metadata]\nauthor = René\n[tool:pytest]\n".encode()})

    _, tree = prepare(repository, "HEAD", ini=repository / "pytest.ini")

    assert tree.arguments[-1] == str(repository / ".nsight/session/against/setup.cfg")
