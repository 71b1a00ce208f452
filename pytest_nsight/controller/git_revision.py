"""Commits of the repository under test: found by name, checked out in a worktree that leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.model.errors import UsageError
from pytest_nsight.processes.watchdog import tie

# Set where git itself runs us, in a hook say; they would override the repository that is asked for.
_OVERRIDES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
_SUBMODULE = "160000"

ANSWER_S = 120.0
"""How long git may take to answer: comparing every file of a large tree takes about ten seconds."""

CHECK_OUT_S = 1800.0
"""How long git may take to make or remove a worktree: some large repositories fetch files one by one."""


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
        return self.commit[:7]


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
    entries = ask(revision.repository, "ls-tree", "-r", revision.commit).stdout.splitlines()
    submodules = [entry.partition("\t")[2] for entry in entries if entry.startswith(_SUBMODULE)]
    if submodules:
        raise UsageError(
            f"{revision.option} {revision.name}: it has submodules ({', '.join(submodules[:3])}), which a worktree "
            "leaves empty; set nsight_against_build = git submodule update --init --recursive"
        )


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
    top = ask(root, "rev-parse", "--show-toplevel")
    if top.returncode:
        raise UsageError(
            f"{option} {name}: {root} is in no git repository ({_complaint(top.stderr)}); without one, {otherwise}"
        )
    found = ask(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if found.returncode:
        raise UsageError(
            f"{option} {name}: git knows no such commit; fetch it (a shallow clone holds few), "
            "or give a branch, a tag or a hash"
        )
    return Revision(name, found.stdout.strip().splitlines()[-1], Path(top.stdout.strip()).resolve(), option)


def check_out(revision: Revision, folder: Path) -> None:
    """Makes a worktree of the revision, from committed files alone.

    Raises:
        UsageError: git cannot make it.
    """
    # Hooks are switched off: they are for the user's own work, and may do anything.
    made = ask(
        revision.repository,
        *("-c", "core.hooksPath=/dev/null", "worktree", "add", "--detach", "--force"),
        *(str(folder), revision.commit),
    )
    if made.returncode:
        raise UsageError(f"{revision.option} {revision.name}: git made no worktree: {_complaint(made.stderr)}")


def remove_worktree(where: Path, folder: Path) -> None:
    """Removes a worktree, whole or half made, and what git remembers of it.

    Args:
        where: a folder of the repository, not in the worktree.
        folder: the worktree's.
    """
    folder = folder.absolute()
    with contextlib.suppress(UsageError):
        ask(where, "worktree", "remove", "--force", "--force", str(folder))
    if folder.exists():
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(UsageError):
        # A git that was killed while it checked out has left the worktree locked, which prune respects.
        ask(where, "worktree", "unlock", str(folder))
        ask(where, "worktree", "prune")


def describe_commit(root: Path) -> str:
    """The commit of a working tree, with "+" when files differ from it; "" where git does not know."""
    try:
        revision = ask(root, "rev-parse", "--verify", "--quiet", "HEAD")
        status = ask(root, "status", "--porcelain", "--untracked-files=no")
    except UsageError:
        return ""
    return "" if revision.returncode else revision.stdout.strip() + ("+" if status.stdout.strip() else "")


def ask(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The finished git command, with its output and exit code.

    Raises:
        UsageError: there is no git.
    """
    environ = tie({name: value for name, value in os.environ.items() if name not in _OVERRIDES})
    command = ["git", "-C", str(folder), *arguments]
    try:
        # A session of its own: Ctrl-C must not stop git half way, least of all when it tidies up.
        git = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="backslashreplace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise UsageError(f"git is needed and cannot be started ({error.strerror}); install it") from None
    limit_s = CHECK_OUT_S if "worktree" in arguments else ANSWER_S
    try:
        output, complaint = git.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        # Its children are ended, too: a credential helper, for example, would keep the output open.
        os.killpg(git.pid, signal.SIGKILL)
        git.communicate()
        raise UsageError(
            f"git {' '.join(arguments[:2])} did not answer within {limit_s:.0f} s in {folder} and was ended; find "
            "out what it waits for (a lock, a file system, a password), then run again"
        ) from None
    return subprocess.CompletedProcess(command, git.returncode, output, complaint)


def _complaint(text: str) -> str:
    """The error message of git, of one or several lines, without its progress messages."""
    lines = text.strip().splitlines() or ["git said nothing"]
    causes = [line for line in lines if line.startswith(("error: ", "fatal: "))]
    return "; ".join(line.removeprefix("fatal: ").removeprefix("error: ") for line in causes[:3] or lines[-1:])
