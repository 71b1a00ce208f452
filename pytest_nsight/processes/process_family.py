"""The processes that one process has started, directly or not: they carry a mark in their environment.

A child keeps the environment when it leaves the process group, when it outlives its parent, and when a profiler
stands between. So a mark finds what neither the parent nor the group leads to.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import psutil

MARK = "PYTEST_NSIGHT_PROCESS"
"""The environment variable; its value is "<owner>.<number>", with a token for the process that started them."""

WATCHDOG = "watchdog"
"""The value for a watchdog. It ends by itself after its owner, and must live until then."""

# A zombie has ended, though nobody has asked for its exit code yet.
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


class ProcessFamily:
    """What carries certain marks, and all that has been started by it."""

    def __init__(self, belongs: Callable[[str], bool]) -> None:
        """Looks for nothing yet.

        Args:
            belongs: whether a process with this mark belongs to the family.
        """
        self._belongs = belongs
        self._seen: dict[int, float] = {}

    def add(self, pid: int) -> None:
        """Counts a process among the family, whatever its mark, for as long as it runs."""
        with contextlib.suppress(psutil.Error):
            self._seen[pid] = psutil.Process(pid).create_time()

    def look(self) -> tuple[int, ...]:
        """Pids of all members that run.

        Found by the mark; by parent, for those that overwrite their environment to change their title; and by an
        earlier look, for those of them whose parent has ended since.
        """
        processes = _running()
        marks = {pid: _mark_of(pid) for pid in processes}
        family = {
            pid
            for pid, (_, started) in processes.items()
            if self._seen.get(pid) == started or self._belongs(marks[pid])
        }
        parents = {pid: parent for pid, (parent, _) in processes.items() if marks[pid] != WATCHDOG}
        while children := {pid for pid, parent in parents.items() if parent in family} - family:
            family |= children
        self._seen = {pid: processes[pid][1] for pid in family}
        return tuple(sorted(family))


def is_running(pid: int | None) -> bool:
    """Whether there is such a process, and it has not ended yet."""
    with contextlib.suppress(psutil.Error):
        return pid is not None and psutil.Process(pid).status() not in _ENDED
    return False


def is_called(pid: int, name: str) -> bool:
    """Whether there is such a process, and its program has this name."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).name() == name
    return False


def _running() -> dict[int, tuple[int, float]]:
    """Pid -> parent's pid and time of start, of all running processes but this one."""
    return {
        process.pid: (process.info["ppid"], process.info["create_time"])
        for process in psutil.process_iter(["ppid", "create_time", "status"])
        if process.pid != os.getpid() and process.info["status"] not in _ENDED
    }


def _mark_of(pid: int) -> str:
    with contextlib.suppress(psutil.Error, OSError):
        return psutil.Process(pid).environ().get(MARK, "")
    return ""
