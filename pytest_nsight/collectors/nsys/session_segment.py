"""The shared memory in which all nsys of one version on a machine keep their sessions.

It is a segment of Boost.Interprocess, `/dev/shm/NSys-VERSION`. Whoever needs it first makes it, and marks it as
made in its first word. An nsys that is killed in between leaves it half made. Then every later nsys of that
version waits for the mark, without an end; its front end gives up after ten seconds with "Agent launcher
failed". Nobody else removes such a segment, so one process that was killed would fail every session on the
machine until its next boot.

Seen with nsys 2022.4.2, two of which had started in one moment: the word was 1, the next one the process id of
an agent that had been killed. A copy of that file, and any file with that first word, stops every nsys in the
same way. Shared memory of other names (`quadd-agent-instance-PID`, `sem.nsys_sem_PID`) stays behind, too; it
stops none.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")

# The first word of a segment: managed_open_or_create_impl of Boost.Interprocess.
_NOT_BEGUN, _BEGUN = 0, 1
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
            if _is_half_made(segment):
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
    # Without a size, too, it is still to be made.
    return int.from_bytes(word, "little") in (_NOT_BEGUN, _BEGUN)
