"""A folder that belongs to a running process, by a lock which the kernel opens when that process is no more.

Sessions have one below .nsight/, commands one in the temporary folder. Whoever starts removes those whose lock is
free, because SIGKILL leaves their owner no time to do it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from pytest_nsight.model.errors import NsysError
from pytest_nsight.processes.regular_files import is_open_at

IN_USE = "in-use"
_PREFIX = "pytest-nsight-"
_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that a folder belongs to.

    Attributes:
        process: its id.
        host: where it runs.
        since: UTC time from which on the folder belongs to it, ISO 8601.
        keeps: whether the user wants the recordings in the folder to stay.
    """

    process: int
    host: str
    since: str
    keeps: bool = False

    def __str__(self) -> str:
        return f"process {self.process} on {self.host!a} since {self.since!a}"


class OwnedFolder:
    """A folder whose lock this process holds."""

    def __init__(self, folder: Path, descriptor: int, owner: Owner | None) -> None:
        """Takes over the open file.

        Args:
            folder: the folder.
            descriptor: of the file IN_USE, -1 where the file system has no locks.
            owner: what is known of the owner, None where its file says nothing.
        """
        self.folder = folder
        self.owner = owner
        self._descriptor = descriptor

    def __enter__(self) -> OwnedFolder:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        """Gives the folder up."""
        self.release()

    def release(self) -> None:
        """Opens the lock, and removes the folder if it is empty."""
        if self._descriptor == -1:
            return
        with contextlib.suppress(OSError):
            (self.folder / IN_USE).unlink(missing_ok=True)
            self.folder.rmdir()
        os.close(self._descriptor)
        self._descriptor = -1


def own(folder: Path, *, keeps: bool = False, mode: int = 0o777) -> OwnedFolder:
    """Makes a folder, if it is not there yet, and marks it as this process's.

    Args:
        folder: the folder.
        keeps: see Owner.
        mode: permissions of a folder that is made.

    Raises:
        OSError: it cannot be made or written.
    """
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    owner = Owner(os.getpid(), os.uname().nodename, now, keeps)
    path = folder / IN_USE
    while True:
        folder.mkdir(mode, parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            # Somebody else has taken the empty folder for an abandoned one.
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            # Without locks nobody can know when the owner is gone: the folder is nobody's to remove.
            os.close(descriptor)
            path.unlink(missing_ok=True)
            return OwnedFolder(folder, -1, owner)
        if is_open_at(descriptor, path):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps(asdict(owner)).encode())
            return OwnedFolder(folder, descriptor, owner)
        os.close(descriptor)


def take_over(folder: Path) -> OwnedFolder | Owner | None:
    """Takes the lock of a folder whose owner is gone.

    Args:
        folder: any folder; links are not followed.

    Returns:
        The folder; or its owner, who runs; or None for a folder without a lock, or of another user.
    """
    try:
        if not _is_own_folder(folder):
            return None
        descriptor = os.open(folder / IN_USE, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        # Its owner was killed before it could lock it. An owner that is about to lock it makes it again.
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        owner = _read_owner(descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return owner or Owner(0, "?", "?")
        if is_open_at(descriptor, folder / IN_USE):
            return OwnedFolder(folder, descriptor, owner)
    os.close(descriptor)
    return None


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder that only its user can read; those of killed commands go first.

    If nsys failed, its logs stay, whose place the error names.
    """
    remove_abandoned_scratch()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    held = own(folder, mode=0o700)
    try:
        yield folder
    except NsysError:
        for path in folder.iterdir():
            if path.suffix != ".log" and path.name != IN_USE:
                remove_path(path)
        raise
    except BaseException:
        empty(folder)
        raise
    else:
        empty(folder)
    finally:
        held.release()


def remove_abandoned_scratch() -> tuple[tuple[Path, ...], tuple[tuple[Path, Owner], ...]]:
    """Removes the temporary folders of commands that no longer run.

    Returns:
        Those that it removed, and those that are in use, with their owners.
    """
    removed, left = [], []
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
        taken = take_over(folder)
        if isinstance(taken, Owner):
            left.append((folder, taken))
        elif taken is not None:
            empty(folder)
            taken.release()
            removed.append(folder)
    return tuple(removed), tuple(left)


def empty(folder: Path) -> None:
    """Removes all that is in a folder but the lock, as far as it lets itself be removed."""
    for path in folder.iterdir():
        if path.name != IN_USE:
            remove_path(path)


def remove_path(path: Path) -> None:
    """Removes a file, or a folder with all that is in it; of a link, the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_own_folder(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _read_owner(descriptor: int) -> Owner | None:
    """What the file says; anybody may have written it."""
    try:
        fields = json.loads(os.pread(descriptor, _MOST_BYTES, 0))
        return Owner(
            int(fields["process"]), str(fields["host"]), str(fields["since"]), keeps=fields["keeps"] is True
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
