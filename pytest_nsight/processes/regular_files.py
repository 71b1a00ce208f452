"""Reads files that may come from elsewhere: only regular ones, and no more of them than fits.

A recording can be handed around. What stands in its place may be a pipe, on which reading never ends, a link to
a device, or some kilobytes that unpack to terabytes.
"""

from __future__ import annotations

import gzip
import lzma
import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from pytest_nsight.model.errors import TraceError

MOST_UNPACKED_BYTES = 8 * 1024**3
"""A packed database may unpack to this much; a session of 26 cases takes some 20 MB."""

_CHUNK_BYTES = 1024**2
_REMEDY = "give the path of a recording, such as an .sqlite export"
_GZIP = b"\x1f\x8b"
_POINTER = b"version https://git-lfs"


def is_open_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at this path: another process may have removed or replaced it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def check_regular(path: Path, *, follows_links: bool) -> None:
    """Refuses what is no regular file, before it is opened.

    Args:
        path: the file.
        follows_links: whether a link to a regular file will do: for a path that the user gave, but not for what
            lies in a folder that may come from elsewhere.

    Raises:
        TraceError: it is missing, a link, a folder, a pipe, a socket or a device.
    """
    try:
        mode = path.stat(follow_symlinks=follows_links).st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TraceError(f"{path} cannot be read ({reason}); {_REMEDY}") from None
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
        raise TraceError(f"{path} is {kind}, not a regular file; {_REMEDY}")


_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def check_content(path: Path) -> None:
    """Refuses a file that stands for another: what git leaves in place of a large one that it did not fetch.

    Args:
        path: the file, or a link to it.

    Raises:
        TraceError: it is such a pointer of git LFS, is no regular file, or cannot be opened.
    """
    check_regular(path, follows_links=True)
    try:
        with path.open("rb") as file:
            is_pointer = file.read(len(_POINTER)) == _POINTER
    except OSError as error:
        raise TraceError(f"{path} cannot be read ({error.strerror}); {_REMEDY}") from None
    if is_pointer:
        raise TraceError(
            f"{path} is a git LFS pointer, which stands for a file that was not fetched; type `git lfs pull` in "
            "its repository"
        )


def read_bounded(path: Path, most_bytes: int, *, follows_links: bool = False) -> bytes:
    """The contents of a file, unpacked where it is compressed with gzip.

    Args:
        path: the file.
        most_bytes: how much it may hold, unpacked.
        follows_links: see `check_regular`.

    Raises:
        TraceError: it is no regular file, is damaged, or holds more.
    """
    check_regular(path, follows_links=follows_links)
    try:
        with path.open("rb") as packed:
            is_packed = packed.read(len(_GZIP)) == _GZIP
            packed.seek(0)
            with gzip.open(packed, "rb") if is_packed else packed as file:
                data = file.read(most_bytes + 1)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise TraceError(f"{path} cannot be read ({error}); record or export it again") from None
    if len(data) > most_bytes:
        raise _too_large(path, most_bytes)
    return data


def unpack_xz(packed: Path, target: Path, most_bytes: int = MOST_UNPACKED_BYTES) -> None:
    """Unpacks a .xz file; the target appears whole or not at all.

    Args:
        packed: the file; stays.
        target: the file to write; overwritten.
        most_bytes: how much it may hold.

    Raises:
        TraceError: the file is damaged, is no regular one or holds too much, or the target cannot be written.
    """
    _unpack(packed, target, lzma.open, ".xz", most_bytes)


def unpack_gzip(packed: Path, target: Path, most_bytes: int = MOST_UNPACKED_BYTES) -> None:
    """Unpacks a .gz file; the target appears whole or not at all.

    Args:
        packed: the file; stays.
        target: the file to write; overwritten.
        most_bytes: how much it may hold.

    Raises:
        TraceError: as of `unpack_xz`.
    """
    _unpack(packed, target, gzip.open, ".gz", most_bytes)


def _unpack(packed: Path, target: Path, opened: Callable[..., Any], suffix: str, most_bytes: int) -> None:
    check_regular(packed, follows_links=True)
    try:
        with opened(packed, "rb") as source, target.open("wb") as plain:
            _copy(source, plain, packed, most_bytes)
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        target.unlink(missing_ok=True)
        raise TraceError(
            f"Cannot unpack {packed}, which is cut short or no {suffix} file ({str(error).rstrip('.')}); copy it "
            "here again, or give the .sqlite export that it was made from."
        ) from error
    except OSError as error:
        target.unlink(missing_ok=True)
        raise TraceError(
            f"Cannot unpack {packed} into {target.parent}: {error.strerror or error}; make room there, or set "
            "TMPDIR to a folder with more."
        ) from error
    except TraceError:
        target.unlink(missing_ok=True)
        raise


def _copy(source: IO[bytes], target: IO[bytes], path: Path, most_bytes: int) -> None:
    copied = 0
    while chunk := source.read(_CHUNK_BYTES):
        copied += len(chunk)
        if copied > most_bytes:
            raise _too_large(path, most_bytes)
        target.write(chunk)


def _too_large(path: Path, most_bytes: int) -> TraceError:
    return TraceError(
        f"{path} unpacks to more than {most_bytes / 1e9:.1f} GB, which no recording of a session does; "
        "record the session again"
    )
