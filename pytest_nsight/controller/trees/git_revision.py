"""Commits of the repository under test: found by name, checked out in a worktree that leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.units import short_commit
from pytest_nsight.processes.git_calls import ask_git, find_work_tree

_SUBMODULE = "160000"


@dataclass(frozen=True, slots=True)
class Revision:
    """A commit of the repository under test.

    Attributes:
        name: what the user called it.
        commit: its full hash.
        repository: top folder of the user's working tree.
        option: which option or command names it.
    """

    name: str
    commit: str
    repository: Path
    option: str = "--nsight-against"

    @property
    def short(self) -> str:
        """The hash as people read it."""
        return short_commit(self.commit)


def resolve(root: Path, name: str, *, may_build: bool) -> Revision:
    """Finds a revision.

    Args:
        root: a folder of the repository.
        name: anything that git takes for a commit.
        may_build: whether a command prepares the worktree, and so may check out submodules.

    Raises:
        UsageError: no git, no repository, no such commit, or one that a worktree does not hold completely.
    """
    found = find_commit(root, name, "--nsight-against", "compare with stored baselines")
    if not may_build:
        refuse_submodules(found)
    return found


def refuse_submodules(revision: Revision) -> None:
    """Refuses a revision that a worktree does not hold completely.

    Raises:
        UsageError: it has submodules.
    """
    entries = ask_git(revision.repository, "ls-tree", "-r", revision.commit).text.splitlines()
    submodules = [entry.partition("\t")[2] for entry in entries if entry.startswith(_SUBMODULE)]
    if submodules:
        raise UsageError(
            f"{revision.option} {revision.name}: it has submodules ({', '.join(submodules[:3])}), which a worktree "
            "leaves empty; set nsight_against_build = git submodule update --init --recursive"
        )


def refuse_nested(revision: Revision, root: Path, cases: Iterable[str]) -> None:
    """Refuses tests that another repository keeps, one inside of the revision's: no commit of it would have them.

    Args:
        revision: to compare with.
        root: pytest's root folder.
        cases: ids of the tests.

    Raises:
        UsageError: there are such tests.
    """
    for file in dict.fromkeys(case.partition("::")[0] for case in cases):
        for folder in (root / file).resolve().parents:
            if not folder.is_relative_to(revision.repository) or folder == revision.repository:
                break
            if _is_other_repository(folder / ".git"):
                raise UsageError(
                    f"{revision.option} {revision.name} is a commit of {revision.repository}, which pytest's root "
                    f"folder is in, and {file} belongs to another repository, {folder}: "
                    f"add --rootdir={shlex.quote(str(folder))}"
                )


def _is_other_repository(link: Path) -> bool:
    """Whether files beside this belong to a repository or a worktree of their own, not to a submodule."""
    try:
        return link.is_dir() or "/worktrees/" in link.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def find_commit(root: Path, name: str, option: str, otherwise: str) -> Revision:
    """The commit of that name.

    Args:
        root: a folder of the repository.
        name: anything that git takes for a commit.
        option: which option names it.
        otherwise: what to do where there is no repository.

    Raises:
        UsageError: no git, no repository, or no such commit.
    """
    tree = find_work_tree(root)
    if tree.top is None:
        raise UsageError(f"{option} {name}: {tree.reason}; without the commits of one, {otherwise}")
    commit = _ask_object(root, name)
    if commit:
        # Not in one step: in ":/text" all that follows is text to search for.
        commit = _ask_object(root, f"{commit}^{{commit}}")
    if not commit:
        raise UsageError(
            f"{option} {name}: git knows no such commit; fetch it (a shallow clone holds few), "
            f"or give a branch, a tag or a hash of {tree.top}"
        )
    return Revision(name, commit, tree.top, option)


def _ask_object(root: Path, name: str) -> str:
    """The hash of the one object of that name, "" where git knows none."""
    found = ask_git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
    # An old git prints the option, too.
    lines = found.text.split()
    # "^name" stands for all but the history of a commit.
    return lines[-1] if found.code == 0 and lines and not lines[-1].startswith("^") else ""


def check_out(revision: Revision, folder: Path) -> None:
    """Makes a worktree of the revision, from committed files alone.

    Raises:
        UsageError: git cannot make it.
    """
    # Hooks are for the user's own work, and may do anything.
    made = ask_git(
        revision.repository,
        *("-c", "core.hooksPath=/dev/null", "worktree", "add", "--detach", "--force"),
        *(str(folder), revision.commit),
    )
    if made.code:
        raise UsageError(
            f"{revision.option} {revision.name}: git made no worktree: {made.complaint}; correct what it names, "
            "and start again"
        )


def remove_worktree(where: Path, folder: Path) -> None:
    """Removes a worktree, whole or half made, and what git remembers of it; worktrees of the user's stay.

    Args:
        where: a folder of the repository, not in the worktree.
        folder: the worktree's.
    """
    folder = folder.absolute()
    with contextlib.suppress(UsageError):
        ask_git(where, "worktree", "remove", "--force", "--force", str(folder))
    if folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(UsageError):
        _forget_worktree(where, folder)


def _forget_worktree(where: Path, folder: Path) -> None:
    """Removes what git remembers of a worktree without its files, which it refuses to remove if it was half made.

    `git worktree prune` would forget all whose files are absent: those on a disk that is not mounted, too, with
    what the user has staged there.
    """
    common = ask_git(where, "rev-parse", "--git-common-dir")
    if common.code:
        return
    link = os.path.realpath(folder / ".git")
    for note in Path(where, common.text.strip()).glob("worktrees/*/gitdir"):
        with contextlib.suppress(OSError):
            # The user's settings can make git write a relative path.
            if os.path.realpath(note.parent / os.fsdecode(note.read_bytes().strip())) == link:
                shutil.rmtree(note.parent, ignore_errors=True)


def describe_commit(root: Path) -> str:
    """The commit of a working tree, with "+" when files differ from it; "" where git does not know."""
    try:
        revision = ask_git(root, "rev-parse", "--verify", "--quiet", "HEAD")
        status = ask_git(root, "status", "--porcelain", "--untracked-files=no")
    except UsageError:
        return ""
    return "" if revision.code else revision.text.strip() + ("+" if status.text.strip() else "")


def has_uncommitted(root: Path, files: Iterable[str]) -> bool:
    """Whether git does not know one of some files, so that no commit holds it.

    Args:
        root: a folder of the repository.
        files: their paths from there; what lies outside of the repository counts for nothing.
    """
    paths = list(files)
    if not paths:
        return False
    try:
        found = ask_git(root, "ls-files", "--others", "--", *(f":(literal){path}" for path in paths))
    except UsageError:
        return False
    if found.code and len(paths) > 1:
        # Git answers for none of them where one lies outside of the repository.
        return any(has_uncommitted(root, [path]) for path in paths)
    return bool(found.output)


def describe_same_tree(revision: Revision) -> str:
    """A sentence for a comparison that no change can fail, as where CI compares the main branch with itself."""
    return (
        f"this tree is {revision.name} ({revision.short}) itself, except for untracked files, so no change of "
        f"a tracked file is compared; to compare the last commit with the one before, give {revision.option} HEAD~1"
    )
