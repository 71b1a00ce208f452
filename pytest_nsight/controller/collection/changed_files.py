"""The files of a working tree that differ from a git revision: committed since, uncommitted, untracked, deleted."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.controller.trees.git_revision import Revision, find_commit
from pytest_nsight.model.errors import UsageError
from pytest_nsight.processes.git_calls import ask_git

_CONFIGURATION = (
    *("pyproject.toml", "setup.py", "setup.cfg", "tox.ini"),
    *("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"),
    *("*requirements*.txt", "*requirements*.in", "*constraints*.txt", "*.lock", "*-lock.y*ml", "pylock*.toml"),
    *("Pipfile", "environment*.y*ml", ".python-version"),
)
_FOLDERS_OF_REQUIREMENTS = ("requirements", "constraints")


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """What differs from a revision.

    Attributes:
        revision: what the working tree is compared with.
        files: absolute paths; those of deleted files do not exist. A renamed file is there under both names.
    """

    revision: Revision
    files: frozenset[Path]

    @property
    def missing(self) -> frozenset[Path]:
        """The changed files that no longer exist in the working tree."""
        return frozenset(path for path in self.files if not path.exists())

    def below(self, folder: Path) -> list[Path]:
        """The changed files in a folder or its subfolders, sorted."""
        return sorted(path for path in self.files if path.is_relative_to(folder))

    def find_configuration(self, root: Path) -> Path | None:
        """The first changed file that configures the project around pytest's root folder; None if none changed."""
        return next((path for path in sorted(self.files) if _is_configuration(path, root)), None)

    def find_declared(self, root: Path, globs: Sequence[str]) -> tuple[Path, str] | None:
        """The first changed file that matches one of the globs, relative to the root folder, and that glob."""
        for path in self.below(root):
            for glob in globs:
                if fnmatch.fnmatchcase(path.relative_to(root).as_posix(), glob):
                    return path, glob
        return None


def list_changes(root: Path, name: str) -> ChangedFiles:
    """The files that differ between a revision and the working tree as it is.

    Args:
        root: a folder of the repository.
        name: of the revision.

    Raises:
        UsageError: no git, no repository, no such revision.
    """
    revision = find_commit(root, name, "--nsight-affected", "measure all cases")
    top = revision.repository
    differing = ask_git(top, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", revision.commit, "--")
    untracked = ask_git(top, "ls-files", "--others", "--exclude-standard", "-z")
    for answer in (differing, untracked):
        if answer.code:
            raise UsageError(
                f"--nsight-affected {name}: git cannot list the changes: {answer.complaint}; measure all cases"
            )
    return ChangedFiles(revision, frozenset(top / path for path in _names([differing.output, untracked.output])))


def _names(answers: Iterable[bytes]) -> list[str]:
    return [os.fsdecode(name) for answer in answers for name in answer.split(b"\0") if name]


def _is_configuration(path: Path, root: Path) -> bool:
    if not root.is_relative_to(path.parent) and not path.is_relative_to(root):
        return False
    if path.parent.name in _FOLDERS_OF_REQUIREMENTS and path.suffix in (".txt", ".in"):
        return True
    return any(fnmatch.fnmatchcase(path.name, pattern) for pattern in _CONFIGURATION)
