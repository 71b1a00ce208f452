"""Files read whole or refused, files written whole or not at all, and errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil

from pytest_nsight.model.errors import BaselineError

_BASELINES_ELSEWHERE = "choose another with --nsight-baselines (pytest) or --baselines (pytest-nsight)"
_REMEDIES = {
    errno.ENOSPC: "free some space on that disk and save again",
    errno.EDQUOT: "free some of your quota on that disk and save again",
    errno.EACCES: "check who owns it, or {elsewhere}",
    errno.EPERM: "check who owns it, or {elsewhere}",
    errno.EROFS: "the file system is read-only, {elsewhere}",
    errno.ENOTDIR: "move away the file that is where a folder is needed, or {elsewhere}",
    errno.EEXIST: "move away the file that is where a folder is needed, or {elsewhere}",
    errno.ENAMETOOLONG: "shorten the path of the test module",
    errno.ELOOP: "remove the link that leads back to itself, or {elsewhere}",
    errno.EISDIR: "move away the folder that is where a file is needed, or {elsewhere}",
}

MOST_BYTES = 128 << 20
"""Largest file that is read: thirty times the baselines of this repository's own suite in one file."""

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


@contextlib.contextmanager
def explaining(verb: str, path: Path, elsewhere: str = _BASELINES_ELSEWHERE) -> Iterator[None]:
    """Turns an error of the operating system into one for the user.

    Args:
        verb: the attempt: "read", "write".
        path: the file or folder.
        elsewhere: how the user names another place, for the remedy.

    Raises:
        BaselineError: the attempt, the path, the cause and the remedy.
    """
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        remedy = _REMEDIES.get(error.errno or 0, "check the path, or {elsewhere}").format(elsewhere=elsewhere)
        raise BaselineError(f"cannot {verb} {path}: {reason}; {remedy}") from error


def refuse_broken_link(path: Path) -> None:
    """Refuses a path that leads nowhere because a link in it does: it would pass for an empty folder.

    Raises:
        BaselineError: the path, or a folder above it, is a link to what does not exist or back to itself.
    """
    for place in (path, *path.parents):
        if place.exists():
            return
        if place.is_symlink():
            raise BaselineError(
                f"{place} is a link to {place.readlink()}, which leads to nothing; mend or remove the link, or "
                f"{_BASELINES_ELSEWHERE}"
            )


def read_regular_file(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a file.

    Args:
        path: the file.
        most_bytes: the largest size that is read.

    Raises:
        BaselineError: it is a pipe, a device or the like, which may never end, or it is too large.
        OSError: it cannot be opened or read.
    """
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - it is open already
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "no regular file")
            raise BaselineError(f"{path} is {kind}, not a file; put the file there, or {_BASELINES_ELSEWHERE}")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        size = max(status.st_size, len(content))
        raise BaselineError(
            f"{path} has {size:,} bytes, and {most_bytes:,} is the most that is read; restore or remove it"
        )
    return content


def replace(path: Path, text: str) -> None:
    """Writes a file whole: after any failure it holds the old text or the new one, never a part.

    Raises:
        BaselineError: the folder or its disk does not allow it; the old file is unchanged.
    """
    replace_bytes(path, text.encode("utf-8"))


def replace_bytes(path: Path, content: bytes, elsewhere: str = _BASELINES_ELSEWHERE) -> None:
    """Writes bytes as a whole file, as `replace` writes text.

    Args:
        path: the file.
        content: the new content.
        elsewhere: how the user names another place, for the remedy.

    Raises:
        BaselineError: the folder or its disk does not allow it; the old file is unchanged.
    """
    # A link stays one: others may read the file that it leads to.
    path = Path(os.path.realpath(path))
    # Two savers on a file system whose locks do nothing must not share a draft.
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with explaining("write", path, elsewhere):
        try:
            with draft.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        _flush_folder(path.parent)


def remove_drafts(folder: Path) -> tuple[Path, ...]:
    """Removes the drafts that killed processes left in a folder.

    Returns:
        What it removed.
    """
    removed = []
    for path in folder.glob(".*.tmp"):
        process = path.name.rsplit(".", 2)[1]
        if process.isdecimal() and not psutil.pid_exists(int(process)):
            path.unlink(missing_ok=True)
            removed.append(path)
    return tuple(removed)


def _flush_folder(folder: Path) -> None:
    # Without this, a power cut may undo the renaming.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
