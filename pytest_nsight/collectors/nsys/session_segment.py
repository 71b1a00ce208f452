"""The shared memory in which all nsys of one version on a machine keep their sessions.

It is a segment of Boost.Interprocess, `/dev/shm/NSys-VERSION`. Whoever needs it first makes it, and marks it as
made in its first word. An nsys that is killed in between leaves it half made. Then every later nsys of that
version waits for the mark, without an end; its front end gives up after ten seconds with "Agent launcher
failed". Nobody else removes such a segment, so one process that was killed would fail every session on the
machine until its next boot.

Two nsys 2022.4.2 that started in one moment left such a segment. Its first word was 1. The second word was the
process id of an agent that had been killed. A copy of that file stops every nsys in the same way, and so does any
file with that first word. `quadd-agent-instance-PID` and `sem.nsys_sem_PID` also stay behind; they stop none.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")

_BEGUN = 1
"""The first word of a segment that is being made: managed_open_or_create_impl of Boost.Interprocess."""
_WORD_BYTES = 4
_MAKING_S = 5.0
"""More than anybody takes to make a segment: microseconds, and a busy machine's waits."""


def remove_half_made(folder: Path = SHARED_MEMORY) -> tuple[Path, ...]:
    """Removes segments that somebody has begun to make and never will finish.

    No process can use such a segment: all that open it wait. What belongs to another user stays.

    Args:
        folder: where the segments are.

    Returns:
        Those that were removed.
    """
    removed = []
    for segment in folder.glob("NSys-*"):
        with contextlib.suppress(OSError):
            if segment.is_file() and _is_half_made(segment):
                segment.unlink()
                removed.append(segment)
    return tuple(removed)


def _is_half_made(segment: Path) -> bool:
    """Whether it was begun a while ago and is not marked as made.

    Raises:
        OSError: it cannot be read, or is gone.
    """
    if time.time() - segment.stat().st_mtime < _MAKING_S:
        return False
    with segment.open("rb") as file:
        word = file.read(_WORD_BYTES)
    # Only what was seen to stop nsys: a version whose segments begin with another word may be using them.
    return int.from_bytes(word, "little") == _BEGUN
