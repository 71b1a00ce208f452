"""The folders of sessions below .nsight/: the newest stay, and those whose recording somebody asked for."""

from __future__ import annotations

import contextlib
import fnmatch
import re
import secrets
import shutil
import time
from datetime import datetime, timezone
from pathlib import Path, PurePath

from pytest_nsight.controller.workers.identity_folders import FOLDERS
from pytest_nsight.gate import shard_file
from pytest_nsight.model.errors import CollectorError, unwritable
from pytest_nsight.processes.owned_folder import IN_USE
from pytest_nsight.protocol.script import FIRST_PASS
from pytest_nsight.report import result_file, session_file

SESSIONS_FOLDER = ".nsight"
"""Where all sessions are, in pytest's root folder."""

MOST_SESSIONS = 20
"""Sessions that stay beside the kept ones."""

KEPT_FILE = "kept"
"""A file of this name in a session's folder keeps it for good."""

EVIDENCE_FILE = "evidence.json"
"""The hashes of the files that a kept session measured."""

DRILL_FOLDER = "drill"
"""In a session's folder: runs under Nsight Compute."""

_NAME = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
RESULT_FILES = {result_file.FILE_NAME, session_file.FILE_NAME}
SESSION_FILES = {*RESULT_FILES, KEPT_FILE, shard_file.FILE_NAME, EVIDENCE_FILE}
"""What may lie in a session's folder beside those of its processes."""

# Of runs, of identity passes, of a script's first pass and of a drill-down; the other tree is gone at the end.
_PROCESS_FOLDERS = ("run-*", FOLDERS, FIRST_PASS, DRILL_FOLDER)

NEEDED_BYTES = 16_000_000
"""What a run may leave."""

# A session that has written nothing for so long is over.
_SILENT_S = 3600.0


def name_session() -> tuple[str, str]:
    """The id of a session that begins now, unique over all sessions, and its UTC time, ISO 8601."""
    now = datetime.now(timezone.utc)
    return f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}", now.isoformat(timespec="seconds")


def make_session(folder: Path) -> None:
    """Makes a session's folder, which git ignores.

    Raises:
        CollectorError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder.parent / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise unwritable(folder, error) from None


def make_run_folder(folder: Path) -> None:
    """Makes a run's folder, if there is room for what a run leaves.

    Raises:
        CollectorError: there is none, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True)
        # The runs of a drill-down lie deeper, where git ignores them already.
        if folder.parents[1].name == SESSIONS_FOLDER:
            (folder.parents[1] / ".gitignore").write_text("*\n", encoding="utf-8")
        free_bytes = shutil.disk_usage(folder).free
    except OSError as error:
        raise unwritable(folder, error) from None
    if free_bytes < NEEDED_BYTES:
        raise CollectorError(
            f"{folder.parent} has {free_bytes / 1e6:.1f} MB free and a run may need "
            f"{NEEDED_BYTES / 1e6:.0f} MB: make room there"
        )


def is_written_by_session(name: PurePath) -> bool:
    """Whether a file is what a session itself writes, or in a folder of its processes.

    Args:
        name: relative to the session's folder.
    """
    if len(name.parts) == 1:
        return name.name in SESSION_FILES
    return any(fnmatch.fnmatchcase(name.parts[0], pattern) for pattern in _PROCESS_FOLDERS)


def keep_session(folder: Path) -> None:
    """Marks a session's folder to stay for good; does nothing if the folder cannot be written."""
    with contextlib.suppress(OSError):
        (folder / KEPT_FILE).touch()


def prune_sessions(sessions: Path, now_s: float | None = None) -> tuple[str, ...]:
    """Removes the oldest sessions over MOST_SESSIONS.

    Some folders always stay: kept ones, those that a process owns, those written to of late (not every file
    system has locks), links, and names of another form.

    Args:
        sessions: the folder .nsight/.
        now_s: seconds since 1970; the clock's where None.

    Returns:
        Names of the removed sessions, the oldest first.
    """
    now_s = time.time() if now_s is None else now_s
    removable = [
        path
        for path in find_sessions(sessions)
        if not (path.is_symlink() or (path / KEPT_FILE).exists() or (path / IN_USE).exists())
    ]
    removed = []
    for folder in removable[: max(0, len(removable) - MOST_SESSIONS)]:
        if now_s - _last_written_s(folder) > _SILENT_S:
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder.name)
    return tuple(removed)


def find_sessions(sessions: Path) -> list[Path]:
    """The folders of all sessions, the oldest first; links among them."""
    try:
        # Names begin with the time of the start, so that their order is that of the sessions.
        return sorted(path for path in sessions.iterdir() if _NAME.fullmatch(path.name))
    except OSError:
        return []


def _last_written_s(folder: Path) -> float:
    """When the newest file of the session was written, seconds since 1970."""
    times = [0.0]
    for path in (folder, *folder.glob("*"), *folder.glob("*/*")):
        with contextlib.suppress(OSError):
            times.append(path.lstat().st_mtime)
    return max(times)
