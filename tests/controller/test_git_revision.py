"""What a revision is called, and what git remembers of worktrees: the plugin's is forgotten, and no other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_nsight.controller.trees.git_revision import (
    Revision,
    check_out,
    find_commit,
    has_uncommitted,
    refuse_nested,
    remove_worktree,
)
from pytest_nsight.model.errors import UsageError
from tests.repositories import git


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


@pytest.mark.parametrize("link", ["", "gitdir: /a/.git/modules/vendor", "gitdir: /a/.git/worktrees/vendor"])
@pytest.mark.parametrize("inner", ["", "vendor", "vendor/kernels"])
def test_tests_of_a_repository_inside_of_the_revisions_are_refused(repository: Path, inner: str, link: str) -> None:
    revision = Revision("HEAD", git(repository, "rev-parse", "HEAD"), repository.resolve(), "--nsight-against")
    (repository / "vendor/kernels/tests").mkdir(parents=True)
    case = "vendor/kernels/tests/test_a.py::test_it[a]"
    if link:
        (repository / "vendor/kernels/tests/.git").write_text(link)
    if "worktrees" in link:
        inner = "vendor/kernels/tests"
    elif inner:
        git(repository / inner, "init", "-q")
    else:
        # The files of a submodule are a part of the outer commit.
        refuse_nested(revision, repository, [case])
        return

    with pytest.raises(UsageError) as refusal:
        refuse_nested(revision, repository / "lib/..", ["lib/test_b.py::test_it", case])

    assert str(refusal.value) == (
        f"--nsight-against HEAD is a commit of {repository}, which pytest's root folder is in, and "
        f"{case.partition('::')[0]} belongs to another repository, {repository / inner}: "
        f"add --rootdir={repository / inner}"
    )


def add_worktree(repository: Path, folder: Path) -> Path:
    """A worktree whose folder this test may take away; returns what git remembers of it."""
    git(repository, "worktree", "add", "-q", "--detach", str(folder))
    return Path(git(folder, "rev-parse", "--absolute-git-dir"))


def test_a_worktree_of_the_users_stays_while_its_disk_is_away(repository: Path, tmp_path: Path) -> None:
    users = add_worktree(repository, tmp_path / "users")
    (tmp_path / "users/lib/file").write_text("staged")
    git(tmp_path / "users", "add", "lib/file")
    (tmp_path / "users").rename(tmp_path / "away")
    own = tmp_path / "session/against"
    check_out(Revision("HEAD", git(repository, "rev-parse", "HEAD"), repository), own)

    remove_worktree(repository, own)
    remove_worktree(repository, own)

    assert not own.exists()
    assert [path.name for path in (repository / ".git/worktrees").iterdir()] == [users.name]
    (tmp_path / "away").rename(tmp_path / "users")
    assert git(tmp_path / "users", "diff", "--cached", "--name-only") == "lib/file"


@pytest.mark.parametrize("is_relative", [False, True])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_half_made_worktree_is_forgotten_though_it_is_locked(
    repository: Path, tmp_path: Path, *, is_gone: bool, is_relative: bool
) -> None:
    users = add_worktree(repository, tmp_path / "users/against")
    own = add_worktree(repository, tmp_path / "session/against")
    git(repository, "worktree", "lock", str(tmp_path / "session/against"))
    (tmp_path / "session/against/.git").unlink()
    if is_relative:
        (own / "gitdir").write_text("../../../../session/against/.git\n")
    for folder in ("users", "session")[: 1 + is_gone]:
        shutil.rmtree(tmp_path / folder)

    remove_worktree(repository / "lib", tmp_path / "session/against")

    assert not (tmp_path / "session/against").exists()
    assert list((repository / ".git/worktrees").iterdir()) == [users]


def test_a_worktree_is_removed_from_another_worktree(repository: Path, tmp_path: Path) -> None:
    users = add_worktree(repository, tmp_path / "users")
    own = add_worktree(repository, tmp_path / "users/.nsight/against")
    (tmp_path / "users/.nsight/against/.git").unlink()

    remove_worktree(tmp_path / "users", tmp_path / "users/.nsight/against")

    assert users.exists()
    assert not own.exists()


def test_a_file_that_git_does_not_know_is_in_no_commit(repository: Path) -> None:
    (repository / ".gitignore").write_text("ignored.py\n", encoding="utf-8")
    for name in ("lib/test_new[1].py", "ignored.py"):
        (repository / name).write_text("", encoding="utf-8")

    assert has_uncommitted(repository, ["lib/file", "lib/test_new[1].py"])
    assert has_uncommitted(repository / "lib", ["test_new[1].py"])
    assert has_uncommitted(repository, ["ignored.py"])
    assert not has_uncommitted(repository, [])
    assert not has_uncommitted(repository, ["lib/file", "lib/test_new1.py", "bench.py"])
    assert not has_uncommitted(repository, ["../elsewhere.py"])
    assert has_uncommitted(repository, ["../elsewhere.py", "lib/test_new[1].py"])
    assert not has_uncommitted(repository, ["../elsewhere.py", "lib/file"])
    assert not has_uncommitted(repository.parent, ["lib/file"])
