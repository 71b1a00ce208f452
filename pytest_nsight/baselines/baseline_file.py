"""One file of the baselines: its runs, and what is wrong with it, with the remedy."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from pytest_nsight.baselines.atomic_files import explaining, read_regular_file, refuse_broken_link, replace
from pytest_nsight.baselines.decode import decode
from pytest_nsight.baselines.encode import encode
from pytest_nsight.baselines.file_format import MergeConflictError, NewerFormatError, Runs, by_age
from pytest_nsight.model.errors import BaselineError, UsageError
from pytest_nsight.model.values import RunSummary
from pytest_nsight.processes.git_calls import ask_git

_LFS_POINTER = "version https://git-lfs.github.com/spec/"


def read_file(path: Path) -> Runs:
    """The runs in one baseline file.

    Raises:
        BaselineError: the file is damaged, of a newer format, or cannot be read.
    """
    try:
        with explaining("read", path):
            refuse_broken_link(path)
            content = read_regular_file(path)
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BaselineError(_damaged(path, f"not UTF-8 text at byte {error.start}")) from error
    try:
        return decode(text)
    except MergeConflictError as error:
        remedy = f"unite both versions with `pytest-nsight merge-baselines {shlex.quote(str(path))}`"
        raise MergeConflictError(f"baseline file {path}: {error}; {remedy}") from error
    except NewerFormatError as error:
        raise NewerFormatError(f"baseline file {path}: {error}; upgrade pytest-nsight") from error
    except BaselineError as error:
        if text.startswith(_LFS_POINTER):
            raise BaselineError(
                f"baseline file {path} is a pointer of Git LFS, and the file itself was not fetched; run `git lfs "
                "pull`, in CI check out with LFS"
            ) from error
        raise BaselineError(_damaged(path, str(error))) from error


def save_file(path: Path, added: Sequence[RunSummary], keep: int) -> None:
    """Adds runs to those of a file, which is replaced whole; the caller holds the lock of its folder.

    Args:
        path: the file; made if missing.
        added: of the cases that it holds.
        keep: how many runs of a subject to keep, the newest.

    Raises:
        BaselineError: it cannot be read or written, or the runs cannot be stored; it is unchanged.
    """
    # Not exists(): a link to nothing must not be replaced as if it were nothing.
    is_new = not os.path.lexists(path)
    stored = {} if is_new else read_file(path)
    try:
        text = encode(_merge(stored, added, keep))
        decode(text)
    except BaselineError as error:
        raise BaselineError(
            f"{path} was not changed: what was measured cannot be stored, {error}; change the test, then save again"
        ) from error
    if is_new or text != read_regular_file(path).decode("utf-8"):
        replace(path, text)


def _merge(stored: Runs, added: Sequence[RunSummary], keep: int) -> Runs:
    merged = dict(stored)
    for subject in {run.subject for run in added}:
        by_id = {run.run: run for run in stored.get(subject, ())}
        by_id.update({run.run: run for run in added if run.subject == subject})
        merged[subject] = tuple(sorted(by_id.values(), key=by_age)[-keep:])
    return merged


def _damaged(path: Path, what: str) -> str:
    found = f"baseline file {path}: {what}"
    if _is_tracked(path):
        return f"{found}; restore it with `git checkout -- {shlex.quote(str(path))}`, or delete it and save again"
    return f"{found}; delete it and save again, or move it out of {path.parent}"


def _is_tracked(path: Path) -> bool:
    """Whether git can restore the file."""
    try:
        return ask_git(path.parent, "ls-files", "--error-unmatch", "--", path.name).code == 0
    except UsageError:
        return False
