"""Modules of another checkout are found among those of the trees, of what is installed, and of other projects."""

from __future__ import annotations

import json
import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from pytest_nsight.protocol.job import TreeMapping
from pytest_nsight.protocol.other_checkouts import OtherCheckouts
from tests.repositories import git

NAMED = '[project]\nname = "{}"\n'


def write(folder: Path, *files: str, project: str | None = None) -> Path:
    """A project with these files, all of them empty."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    if project is not None:
        (folder / "pyproject.toml").write_text(NAMED.format(project))
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The user's: `ops` in src/, a helper at the top, a member of a workspace; no git."""
    write(tmp_path / "tree/packages/kern", "src/kern/__init__.py", project="kern")
    return write(
        tmp_path / "tree", "src/ops/__init__.py", "src/ops/part.py", "src/spaced/part.py", "utils.py", project="ops"
    )


def find(tree: Path, module: str, file: Path) -> str:
    session = tree / ".nsight/s"
    shared = (str(session), str(tree / ".venv"))
    return OtherCheckouts(TreeMapping(str(tree), str(session / "against"), shared)).find(module, str(file))


@pytest.mark.parametrize(
    ("module", "file", "text", "is_wrong"),
    [
        pytest.param("ops.part", "ops/part.py", "an older one", True, id="changed"),
        pytest.param("ops", "ops/__init__.py", "an older one", False, id="alike in both trees"),
        pytest.param("ops.gone", "ops/gone.py", "an older one", True, id="not in the tree any more"),
        pytest.param("ops.else", "ops/else.py", "", False, id="in neither tree"),
        pytest.param("utils", "utils.py", "", True, id="a module that equals the other tree's"),
        pytest.param("utils", "utils.py", "another one", False, id="a module of a common name"),
        pytest.param("else.part", "else/part.py", "", False, id="another package"),
    ],
)
@pytest.mark.parametrize("folder", ["site", "venv/lib/python3/site-packages", "tree/.venv/lib/site-packages"])
def test_a_copy_of_a_package_counts_where_the_trees_differ(
    tree: Path, tmp_path: Path, module: str, file: str, text: str, is_wrong: bool, folder: str
) -> None:
    session = tree / ".nsight/s"
    other = write(session / "against", "src/ops/__init__.py", "src/ops/part.py", "src/ops/gone.py", "utils.py")
    for changed in ("src/ops/part.py", "utils.py"):
        (tree / changed).write_text("new")
    copy = write(tmp_path / folder, file) / file
    copy.write_text(text)
    shared = (str(session), str(tree / ".venv"))
    checkouts = OtherCheckouts(TreeMapping(str(tree), str(other), shared))

    found = checkouts.find_copy(module, str(copy))

    assert found == (str(tmp_path / folder) if is_wrong else "")
    own = other / "src/ops/part.py"
    assert checkouts.find_copy("ops.part", str(own)) == ""


@pytest.mark.parametrize(
    ("module", "file"),
    [
        ("ops", "src/ops/__init__.py"),
        ("ops.part", "src/ops/part.py"),
        ("ops.new", "src/ops/new.py"),
        ("ops.native", f"src/ops/native{sysconfig.get_config_var('EXT_SUFFIX')}"),
        ("spaced.part", "src/spaced/part.py"),
        ("utils", "utils.py"),
        ("kern", "packages/kern/src/kern/__init__.py"),
        ("ops", "ops/__init__.py"),
    ],
)
def test_a_clone_is_known_by_the_names_of_its_projects(tree: Path, tmp_path: Path, module: str, file: str) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(tree, clone)
    (clone / ".git").mkdir()

    assert find(tree, module, write(clone, file) / file) == str(clone)


def test_a_worktree_is_known_by_its_repository(tmp_path: Path) -> None:
    main = write(tmp_path / "main", "src/ops/__init__.py", "packages/kern/src/kern/__init__.py")
    git(main, "init", "-q")
    git(main, "add", ".")
    git(main, "commit", "-qm", "first")
    # One lies in the other, as tools put them.
    second = main / ".trees/second"
    git(main, "worktree", "add", "-q", str(second))

    for here, there in ((second, main), (main, write(tmp_path / "third"))):
        if not (there / "src").exists():
            git(main, "worktree", "add", "-q", "--detach", str(there))
        for module, file in (("ops", "src/ops/__init__.py"), ("kern", "packages/kern/src/kern/__init__.py")):
            assert find(here, module, there / file) == str(there)
            assert find(here, module, here / file) == ""


@pytest.mark.parametrize("has_git", [False, True])
def test_a_repository_of_another_project_is_none(tree: Path, tmp_path: Path, *, has_git: bool) -> None:
    sibling = write(tmp_path / "sibling", "utils.py", "src/ops/__init__.py", project="sibling")
    (sibling / "packages/kern").mkdir(parents=True)
    if has_git:
        git(sibling, "init", "-q")
        git(tree, "init", "-q")

    assert find(tree, "utils", sibling / "utils.py") == ""
    assert find(tree, "ops", sibling / "src/ops/__init__.py") == ""


def test_a_dependency_that_the_tree_holds_a_copy_of_is_none(tree: Path, tmp_path: Path) -> None:
    write(tree / "third_party/flash", "flash/__init__.py", project="flash")
    flash = write(tmp_path / "flash", "flash/__init__.py", project="flash")

    assert find(tree, "flash", flash / "flash/__init__.py") == ""


def test_what_the_trees_do_not_have_or_what_has_another_name_is_none(tree: Path, tmp_path: Path) -> None:
    old = write(tmp_path / "old", "src/ops/__init__.py", "src/gone.py", "tests/conftest.py", project="ops")

    assert find(tree, "gone", old / "src/gone.py") == ""
    assert find(tree, "conftest", old / "tests/conftest.py") == ""
    # A reference that a test has loaded by its path.
    assert find(tree, "ops_before", old / "src/ops/__init__.py") == ""


def test_the_trees_and_what_is_installed_are_none(tree: Path, tmp_path: Path) -> None:
    clone = write(tmp_path / "clone", "ops/__init__.py", project="ops")
    for tops in (tree, tree / ".nsight/s/against", tree / ".venv/src", clone / ".venv/lib/site-packages"):
        file = write(tops, "ops/__init__.py") / "ops/__init__.py"
        assert find(tree, "ops", file) == ""
    write(tree, "json/__init__.py")
    assert find(tree, "json", Path(os.path.realpath(json.__file__))) == ""
