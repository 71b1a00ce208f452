"""Removes what killed sessions and commands left behind, secrets first; a free lock shows that one was killed.

Every session does this at its start, and `pytest-nsight clean` at any time.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.baselines.atomic_files import remove_drafts
from pytest_nsight.baselines.store import remove_abandoned_drafts
from pytest_nsight.collectors.nsys.private_folder import FOLDER_NAME, remove_private_folder
from pytest_nsight.controller.session_folders import KEPT_FILE, RESULT_FILES, find_sessions, make_session
from pytest_nsight.controller.trees.git_revision import remove_worktree
from pytest_nsight.controller.trees.revision_tree import WORKTREE
from pytest_nsight.model.errors import unwritable
from pytest_nsight.model.units import name_some
from pytest_nsight.processes.owned_folder import (
    IN_USE,
    OwnedFolder,
    Owner,
    own,
    remove_abandoned_scratch,
    remove_path,
    take_over,
)
from pytest_nsight.protocol.manifest import FILE_NAME

_SHOWN = 4
_RUN = "run-"


@dataclass(frozen=True, slots=True)
class Removal:
    """What `remove_abandoned` has done.

    Attributes:
        removed: a sentence for each folder or file that is gone, and for each session that lost files.
        left: a sentence for each that stays, with the reason.
    """

    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((*self.removed, *self.left) or ("nothing was left behind",))


def begin_session(folder: Path, baselines: Path, *, keeps: bool) -> OwnedFolder:
    """Removes what killed sessions left, and marks the folder of a new one as in use.

    Args:
        folder: the session's.
        baselines: the folder of all baselines.
        keeps: whether its recordings are to stay if it is killed.

    Raises:
        CollectorError: the folder cannot be written.
    """
    remove_abandoned(folder.parent, baselines)
    try:
        owned = own(folder, keeps=keeps)
    except OSError as error:
        raise unwritable(folder, error) from None
    make_session(folder)
    return owned


def remove_abandoned(sessions: Path, baselines: Path) -> Removal:
    """Removes what belongs to sessions and commands that no longer run.

    The manifests and logs of a killed session stay; its recordings stay if the user wanted to keep them.

    Args:
        sessions: the folder .nsight/.
        baselines: the folder of all baselines.
    """
    removed: list[str] = []
    left: list[str] = []
    with ExitStack() as held:
        abandoned: list[OwnedFolder] = []
        for folder in find_sessions(sessions):
            taken = take_over(folder)
            if isinstance(taken, Owner):
                left.append(f"left {folder}: its session still runs ({taken})")
            elif taken is not None:
                held.callback(taken.release)
                abandoned.append(taken)
        gone: dict[Path, list[Path]] = {}
        for one in abandoned:
            gone[one.folder] = list(_remove_private_folders(one.folder, left))
        scratch, busy = remove_abandoned_scratch()
        removed += [f"removed {folder}, which a command that was killed had left" for folder in scratch]
        left += [f"left {folder}: its command still runs ({owner})" for folder, owner in busy]
        for one in abandoned:
            gone[one.folder] += _remove_the_rest(one)
        removed = [_describe(folder, paths) for folder, paths in gone.items() if paths] + removed
    drafts, locked = remove_abandoned_drafts(baselines)
    if sessions.is_dir():
        drafts += remove_drafts(sessions)
    removed += [f"removed {path}, the draft of a process that was killed" for path in drafts]
    return Removal(tuple(removed), (*left, *(f"left what is in {reason}" for reason in locked)))


def _describe(folder: Path, paths: list[Path]) -> str:
    names = name_some((str(path.relative_to(folder)) for path in paths), _SHOWN)
    return f"removed from {folder}, whose session was killed: {names}"


def _remove_private_folders(session: Path, left: list[str]) -> Iterator[Path]:
    """Removes what may hold secrets."""
    for run in _real_folders(session):
        for place in (run, *_real_folders(run)):
            private = place / FOLDER_NAME
            if place.name == FOLDER_NAME or not os.path.lexists(private):
                continue
            try:
                remove_private_folder(place)
            except OSError as error:
                left.append(f"left {private}, which may hold secrets: {error.strerror}; remove it by hand")
            else:
                yield private


def _remove_the_rest(one: OwnedFolder) -> Iterator[Path]:
    for place in (one.folder, *_real_folders(one.folder)):
        tree = place / WORKTREE
        if os.path.lexists(tree):
            # Not from inside the session's folder, which may come from elsewhere with a repository of its own.
            remove_worktree(one.folder.parent.parent, tree)
            yield tree
    keeps = one.owner is not None and one.owner.keeps
    yield from _reduce(one.folder, keeps=keeps, is_session=True)


def _reduce(folder: Path, *, keeps: bool, is_session: bool = False) -> Iterator[Path]:
    """Removes all but the records of a session, of a run, or of a worker in it."""
    for path in sorted(folder.iterdir()):
        is_folder = stat.S_ISDIR(path.lstat().st_mode)
        if is_folder and (path.name.startswith(_RUN) if is_session else (path / FILE_NAME).exists()):
            yield from _reduce(path, keeps=keeps)
            with contextlib.suppress(OSError):
                path.rmdir()
        elif is_folder or not _is_record(path, keeps=keeps):
            with contextlib.suppress(OSError):
                remove_path(path)
                yield path


def _is_record(path: Path, *, keeps: bool) -> bool:
    """Whether a file stays: an account of what happened, or part of a recording that was to be kept."""
    if path.name == IN_USE:
        return True
    if not stat.S_ISREG(path.lstat().st_mode) or path.name.startswith("."):
        return False
    return keeps or path.suffix == ".log" or path.name in (FILE_NAME, KEPT_FILE, *RESULT_FILES)


def _real_folders(folder: Path) -> list[Path]:
    """The folders in a folder, without links to folders."""
    return [path for path in sorted(folder.iterdir()) if stat.S_ISDIR(path.lstat().st_mode)]
