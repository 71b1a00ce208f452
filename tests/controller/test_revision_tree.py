"""A revision's tree on disk: its settings, and a build and workers that know no repository but their own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from pytest_nsight.controller.trees.git_revision import find_commit
from pytest_nsight.controller.trees.revision_tree import Build, Tree, Workspace
from pytest_nsight.controller.workers.time_limits import TimeLimits
from pytest_nsight.controller.workers.worker_starter import LiveSession, WorkerStarter
from pytest_nsight.model.errors import UsageError
from pytest_nsight.protocol.job import OTHER_TREE, THIS_TREE
from tests.repositories import git


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


def set_up_hook(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables that git sets for a hook."""
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(repository))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository / ".git/index"))
    monkeypatch.setenv("GIT_PREFIX", "")


def test_a_build_in_a_hook_takes_its_submodules_from_the_revision(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = make_repository(tmp_path / "inner")
    old = commit(inner, {"file": b"old"})
    git(repository, "submodule", "add", "-q", str(inner), "vendored")
    commit(repository, {})
    new = commit(inner, {"file": b"new"})
    git(repository / "vendored", "pull", "-q")
    git(repository, "add", "vendored")
    set_up_hook(repository, monkeypatch)

    _, tree = prepare(repository, "HEAD", "git -c protocol.file.allow=always submodule update -q --init")

    assert (tree.where / "vendored/file").read_text() == "old"
    assert (repository / "vendored/file").read_text() == "new"
    monkeypatch.undo()
    assert git(repository / "vendored", "rev-parse", "HEAD") == new
    assert git(tree.where / "vendored", "rev-parse", "HEAD") == old


def test_workers_of_the_revision_do_not_see_the_repository_of_a_hook(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository, {"file": b""})
    set_up_hook(repository, monkeypatch)
    monkeypatch.setenv("GIT_AUTHOR_NAME", "n")
    started: list[Mapping[str, str]] = []
    collector = SimpleNamespace(start=lambda _command, _folder, _where, environ: started.append(environ))
    session = LiveSession(
        id="s",
        recorded="",
        commit="",
        folder=tmp_path,
        collector=collector,  # type: ignore[arg-type]
        trees={tree.name: tree for tree in prepare(repository, "HEAD")},
        rounds=None,
        keep=False,
        canaries=False,
        environment={},
        limits=TimeLimits(600.0),
    )
    starter = WorkerStarter(session)

    for tree in (THIS_TREE, OTHER_TREE):
        starter.start("module", tmp_path, tree)

    this, other = started
    assert set(this) - set(other) == {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"}
    assert other["GIT_AUTHOR_NAME"] == "n"


def test_tests_of_a_worktree_that_measure_another_one_are_refused_before_anything_is_made(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository, {"ops.py": b""})
    here = tmp_path / "here"
    git(repository, "worktree", "add", "-q", "--detach", str(here))
    module = ModuleType("ops")
    module.__file__ = str(repository / "ops.py")
    monkeypatch.setitem(sys.modules, "ops", module)

    with pytest.raises(UsageError) as refusal:
        prepare(here, "HEAD")

    assert str(refusal.value) == (
        f"--nsight-against HEAD: the tests imported ops from {repository}/ops.py, which belongs to another "
        f"checkout of this project ({repository}): both trees would measure its code; type pip install --editable "
        ". in the tree that pytest was started in, or put the folder of that tree's modules first in PYTHONPATH"
    )
    assert git(repository, "worktree", "list").count("\n") == 1
    module.__file__ = str(here / "ops.py")
    assert len(prepare(here, "HEAD")) == 2


def test_a_file_in_place_of_the_folder_that_pytest_starts_in_is_one_sentence(repository: Path) -> None:
    commit(repository, {"perf": b"a file"})
    (repository / "perf").unlink()
    (repository / "perf").mkdir()
    workspace = Workspace(find_commit(repository, "HEAD", "--nsight-against", ""), repository / ".nsight/session")

    with pytest.raises(
        UsageError, match="that revision has a file where this tree has the folder perf; start pytest"
    ):
        workspace.prepare(repository, None, repository / "perf", (), Build("", 60.0))


@pytest.mark.parametrize(
    "text", [b"[tool]\npytest.ini_options.addopts = '-q'\n", b"[ tool . 'pytest' . ini_options ]\naddopts = '-q'\n"]
)
def test_settings_of_the_revision_count_in_each_way_that_toml_has(repository: Path, text: bytes) -> None:
    commit(repository, {"pyproject.toml": text})

    _, tree = prepare(repository, "HEAD", ini=repository / "pyproject.toml")

    assert tree.arguments[-1] == str(tree.where / "pyproject.toml")


@pytest.mark.parametrize(
    ("given", "cut"),
    [("inner", "inner"), ("inner/..", "."), ("new/deeper", "."), ("inner/../..", "."), ("../../../..", ".")],
)
def test_no_conftest_outside_of_the_worktree_counts_in_it(repository: Path, given: str, cut: str) -> None:
    (repository / "inner").mkdir()
    revision = find_commit(repository, commit(repository, {"inner/conftest.py": b""}), "--nsight-against", "")
    workspace = Workspace(revision, repository / ".nsight/session")

    arguments = (f"--confcutdir={repository / given}",)
    _, tree = workspace.prepare(repository, None, repository, arguments, Build("", 60.0))

    chosen = [one.partition("=")[2] for one in tree.arguments if one.startswith("--confcutdir=")]
    assert Path(chosen[-1]) == (repository / ".nsight/session/against" / cut).resolve()


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
