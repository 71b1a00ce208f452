"""Writing so that a crash, a full disk or a second writer loses nothing, and errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from pytest_nsight.model.errors import BaselineError

_BASELINES_ELSEWHERE = "choose another with --nsight-baselines"
_REMEDIES = {
    errno.ENOSPC: "free some space on that disk and save again",
    errno.EDQUOT: "free some of your quota on that disk and save again",
    errno.EACCES: "check who owns it, or {elsewhere}",
    errno.EPERM: "check who owns it, or {elsewhere}",
    errno.EROFS: "the file system is read-only, {elsewhere}",
    errno.ENOTDIR: "move away the file that is where a folder is needed, or {elsewhere}",
    errno.EEXIST: "move away the file that is where a folder is needed, or {elsewhere}",
    errno.ENAMETOOLONG: "shorten the path of the test module",
}


@contextlib.contextmanager
def explaining(verb: str, path: Path, elsewhere: str = _BASELINES_ELSEWHERE) -> Iterator[None]:
    """Turns an error of the operating system into one for the user.

    Args:
        verb: what was tried: "read", "write".
        path: on what.
        elsewhere: how to name another place, for the remedy.

    Raises:
        BaselineError: what was tried on which path, why it failed, and the remedy.
    """
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        remedy = _REMEDIES.get(error.errno or 0, "check the path, or {elsewhere}").format(elsewhere=elsewhere)
        raise BaselineError(f"cannot {verb} {path}: {reason}; {remedy}") from error


def replace(path: Path, text: str) -> None:
    """Writes a file whole: it holds the old text or the new one, never a part, whatever happens.

    Raises:
        BaselineError: if the folder or its disk does not allow it; the old file is as it was.
    """
    replace_bytes(path, text.encode("utf-8"))


def replace_bytes(path: Path, content: bytes, elsewhere: str = _BASELINES_ELSEWHERE) -> None:
    """Writes a file whole, as `replace` does, of bytes.

    Args:
        path: the file.
        content: all that it is to hold.
        elsewhere: how to name another place, for the remedy.

    Raises:
        BaselineError: if the folder or its disk does not allow it; the old file is as it was.
    """
    # The process id keeps apart savers on a file system whose locks do nothing.
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


def _flush_folder(folder: Path) -> None:
    # Without this, a power cut may undo the renaming.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder's lock, for which other processes wait, and leaves no lock file behind.

    Raises:
        BaselineError: if the folder cannot be written or its file system has no locks.
    """
    path = folder / ".lock"
    while True:
        with explaining("write", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with explaining("lock", path):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            # The holder before us may have removed the file while we waited: then we hold a lock on nothing.
            if _is_same_file(descriptor, path):
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return
        finally:
            os.close(descriptor)


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
