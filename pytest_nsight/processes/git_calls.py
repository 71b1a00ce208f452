"""Calls of git: every part of the package asks it here."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.model.errors import UsageError
from pytest_nsight.processes.watchdog import watched

# Set where git itself runs this program, in a hook say; they would override the repository that is asked for.
_OVERRIDES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
_MOST_CAUSES = 3
_ADVICE = "git config "

ANSWER_S = 120.0
"""How long git may take to answer: comparing every file of a large tree takes about ten seconds."""

CHECK_OUT_S = 1800.0
"""How long git may take to make or remove a worktree: some large repositories fetch files one by one."""


@dataclass(frozen=True, slots=True)
class GitAnswer:
    """What git said.

    Attributes:
        code: its exit code, 0 where it did what it was asked.
        output: what it printed.
        errors: what it wrote to stderr.
    """

    code: int
    output: bytes
    errors: str

    @property
    def text(self) -> str:
        """What it printed, as text."""
        return self.output.decode(errors="backslashreplace")

    @property
    def complaint(self) -> str:
        """Why it could not, which may take several lines of stderr, without its progress messages."""
        lines = self.errors.strip().splitlines() or ["git said nothing"]
        causes = [line for line in lines if line.startswith(("error: ", "fatal: "))] or lines[-1:]
        return "; ".join(line.removeprefix("fatal: ").removeprefix("error: ") for line in causes[:_MOST_CAUSES])


@dataclass(frozen=True, slots=True)
class WorkTree:
    """The files of a repository that a folder lies in.

    Attributes:
        top: their top folder, None where git names none.
        reason: why git names none, with what to do about it, as a sentence; "" where it names one.
        has_repository: whether there is a repository, though git names no files of it.
    """

    top: Path | None
    reason: str = ""
    has_repository: bool = True


def find_work_tree(folder: Path) -> WorkTree:
    """The files of the repository that a folder lies in.

    Raises:
        UsageError: there is no git, or it does not end.
    """
    found = ask_git(folder, "rev-parse", "--show-toplevel")
    if found.code == 0 and found.text.strip():
        return WorkTree(Path(found.text.strip()).resolve())
    if "not a git repository" in found.errors:
        return WorkTree(None, f"{folder} is in no git repository", has_repository=False)
    if ask_git(folder, "rev-parse", "--is-bare-repository").text.strip() == "true":
        return WorkTree(None, f"{folder} is in a bare git repository, which has no files; clone it and go there")
    lines = (line.strip() for line in found.errors.splitlines())
    remedy = next((f"; type: {line}" for line in lines if line.startswith(_ADVICE)), "")
    return WorkTree(None, f"git refuses the repository of {folder}: {found.complaint}{remedy}")


def drop_repository(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program to which its current folder names the repository, also in a hook of another.

    Args:
        environ: of the program.
    """
    return {name: value for name, value in environ.items() if name not in _OVERRIDES}


def ask_git(folder: Path, *arguments: str, in_callers_repository: bool = False) -> GitAnswer:
    """The answer of a finished git command.

    Args:
        folder: where git looks for a repository.
        arguments: what follows `git`.
        in_callers_repository: whether the variables count with which git names the repository to programs that it
            runs, such as merge drivers.

    Raises:
        UsageError: there is no git, or it does not end.
    """
    kept = os.environ if in_callers_repository else drop_repository(os.environ)
    try:
        # A session of its own: Ctrl-C must not stop git half way, least of all when it tidies up.
        git = subprocess.Popen(
            ["git", "-C", str(folder), *arguments],
            # What it says is read here, so it must not be a translation.
            env=watched({**kept, "LANGUAGE": "en"}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise UsageError(f"git is needed and cannot be started ({error.strerror}); install it") from None
    limit_s = CHECK_OUT_S if "worktree" in arguments else ANSWER_S
    try:
        output, errors = git.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        # Its children are ended, too: a credential helper, for example, would keep the output open.
        os.killpg(git.pid, signal.SIGKILL)
        git.communicate()
        raise UsageError(
            f"git {' '.join(arguments[:2])} did not answer within {limit_s:.0f} s in {folder} and was ended; find "
            "out what it waits for (a lock, a file system, a password), then run again"
        ) from None
    return GitAnswer(git.returncode, output, errors.decode(errors="backslashreplace"))
