"""What git keeps: every version of the baseline files, and the commits between two."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.model.errors import UsageError
from pytest_nsight.processes.git_calls import ask_git, find_work_tree

_MISSING = "0" * 40


@dataclass(frozen=True, slots=True)
class FileVersion:
    """One version of a baseline file.

    Attributes:
        path: from the top of the repository.
        blob: git's id of the content.
        content: the bytes.
    """

    path: Path
    blob: str
    content: bytes


@dataclass(frozen=True, slots=True)
class CommitsBetween:
    """The commits after which a change can be.

    Attributes:
        number: how many lie between the two points, the later one included.
        subjects: "hash subject" of the newest of them.
    """

    number: int
    subjects: tuple[str, ...]


class GitHistory:
    """The history of one folder in its repository.

    Attributes:
        why_none: a sentence on why git has no history of it, "" if it has.
    """

    def __init__(self, folder: Path) -> None:
        """Looks for the repository of a folder; neither the repository nor the folder need exist."""
        self._folder = folder.resolve()
        self._where = next(path for path in (self._folder, *self._folder.parents) if path.is_dir())
        try:
            found = find_work_tree(self._where)
        except UsageError as error:
            self.why_none = str(error)
            return
        self.why_none = found.reason if found.has_repository else f"{folder} is in no git repository"

    @property
    def is_shallow(self) -> bool:
        """Whether the clone lacks older commits."""
        return (self._ask("rev-parse", "--is-shallow-repository") or b"").strip() == b"true"

    def list_versions(self) -> Iterator[FileVersion]:
        """Every content that a JSON file of the folder has had in a commit, the newest first, each once."""
        log = self._ask(
            *("log", "--raw", "--no-abbrev", "--no-renames", "--format=", "-z", "--diff-filter=AM"),
            # The folder itself, also where it no longer exists and git is asked in one above it.
            *("--", f":(literal){os.path.relpath(self._folder, self._where)}"),
        )
        fields = (log or b"").split(b"\0")
        versions: dict[tuple[str, bytes], None] = {}
        for change, path in zip(fields[::2], fields[1::2], strict=False):
            blob = change.split()[3].decode()
            if path.endswith(b".json") and blob != _MISSING:
                versions[blob, path] = None
        for blob, path in versions:
            content = self._ask("cat-file", "blob", blob)
            if content is not None:
                yield FileVersion(Path(os.fsdecode(path)), blob, content)

    def list_between(self, before: str, after: str, most: int = 5) -> CommitsBetween | None:
        """The commits that are in `after` and not in `before`; None where git does not know both."""
        if not before.strip("+") or not after.strip("+"):
            return None
        known = self._ask(
            *("log", "--format=%h %s", "--end-of-options", f"{before.strip('+')}..{after.strip('+')}", "--"),
        )
        if known is None:
            return None
        lines = known.decode(errors="replace").splitlines()
        return CommitsBetween(len(lines), tuple(lines[:most]))

    def _ask(self, *arguments: str) -> bytes | None:
        """What git prints; None where it fails, or is not installed."""
        try:
            answer = ask_git(self._where, *arguments)
        except UsageError:
            return None
        return answer.output if answer.code == 0 else None
