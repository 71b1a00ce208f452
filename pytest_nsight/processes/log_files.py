"""The logs of child processes: cut to a size that may stay, and read whatever a program wrote there."""

from __future__ import annotations

import contextlib
import shutil
import stat
import textwrap
from pathlib import Path

_TAIL_BYTES = 1024**2
MOST_LOG_BYTES = 64 * 1024**2
"""What stays of a log once its process has ended."""


def shorten(log: Path, most_bytes: int = MOST_LOG_BYTES) -> None:
    """Cuts the beginning off a log that is too long, and says so in its first line.

    Args:
        log: the log of a process that has ended.
        most_bytes: how much of its end stays.
    """
    draft = log.with_name(f".{log.name}.part")
    # Without room for the draft the log stays as it is.
    with contextlib.suppress(OSError):
        size = log.lstat().st_size
        if not stat.S_ISREG(log.lstat().st_mode) or size <= most_bytes:
            return
        try:
            with log.open("rb") as whole, draft.open("wb") as end:
                end.write(f"pytest-nsight left out the first {size - most_bytes:,} bytes of this log.\n".encode())
                whole.seek(size - most_bytes)
                shutil.copyfileobj(whole, end)
            draft.replace(log)
        finally:
            draft.unlink(missing_ok=True)


def read_tail(log: Path) -> str:
    """The end of a log, at most 1 MiB, whatever bytes a program wrote there; "" where there is none.

    Args:
        log: the log of a child process.
    """
    try:
        # A log in a folder that comes from elsewhere may be a pipe or a device.
        if not stat.S_ISREG(log.lstat().st_mode):
            return ""
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode("utf-8", errors="backslashreplace")
    except OSError:
        return ""


def last_lines(log: Path, count: int = 5, left_out: tuple[str, ...] = ()) -> str:
    """The last lines of a log that are not blank, their common indentation removed; "" where there is no log.

    Args:
        log: the log of a child process.
        count: how many lines at most.
        left_out: beginnings of lines that say nothing of how the process ended.
    """
    # Progress bars overwrite themselves with carriage returns: each state would be a line.
    lines = (line.rsplit("\r", 1)[-1].rstrip() for line in read_tail(log).replace("\r\n", "\n").split("\n"))
    return textwrap.dedent("\n".join([line for line in lines if line and not line.startswith(left_out)][-count:]))
