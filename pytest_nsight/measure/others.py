"""Who else computes on the board: processes that are neither this one nor of its session. Pure but for /proc."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

_MOST_GENERATIONS = 100


def describe_others(
    listed: Iterable[int], own: int, root: int, parent: Callable[[int], int | None], name: Callable[[int], str]
) -> tuple[str, ...]:
    """Names the processes that do not belong to the session.

    Args:
        listed: pids on the board as the driver lists them.
        own: this process, which is on the board.
        root: the outer pytest; what descends from it belongs to the session.
        parent: pid -> its parent's, None if unknown.
        name: pid -> its name, "" if unknown.

    Returns:
        Texts such as "pid 123 (python)". Empty, too, if the driver lists this very process under no or another
        pid, as it does from inside some containers: then none of its pids can be told from our own.
    """
    pids = set(listed)
    if own not in pids:
        return ()
    strangers = sorted(pid for pid in pids if pid != own and not _descends(pid, (own, root), parent))
    return tuple(f"pid {pid} ({name(pid)})" if name(pid) else f"pid {pid}" for pid in strangers)


def _descends(pid: int, elders: tuple[int, int], parent: Callable[[int], int | None]) -> bool:
    ancestor: int | None = pid
    for _ in range(_MOST_GENERATIONS):
        if ancestor in elders:
            return True
        if ancestor is None or ancestor <= 1:
            return False
        ancestor = parent(ancestor)
    return False


def parent_of(pid: int) -> int | None:
    """The parent of a process by /proc; None if there is no such process, or no /proc."""
    try:
        # The name, in parentheses, may hold anything; what follows the last one is split by spaces.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return int(fields[1])
    except (OSError, IndexError, ValueError):
        return None


def name_of(pid: int) -> str:
    """The name of a process by /proc, "" if it cannot be read."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
