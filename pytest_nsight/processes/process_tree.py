"""The process tree of a program: the processes that it has started, directly or not, found by a tag.

The tag is a variable in their environment. A process keeps its environment when it leaves the process group, when
it outlives its parent, and when a profiler stands between. So the tag also finds a process to which neither the
parent nor the group leads.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import psutil

TAG = "PYTEST_NSIGHT_PROCESS"
"""The variable; its value is "<owner>.<number>", the owner being a token of the process that starts programs."""

WATCHDOG = "watchdog"
"""The value for a watchdog. It ends by itself after its owner, and must live until then."""

# A zombie has ended, though nobody has asked for its exit code yet.
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


class ProcessTree:
    """The processes that carry certain tags, and all that these have started."""

    def __init__(self, belongs: Callable[[str], bool]) -> None:
        """Searches for nothing yet.

        Args:
            belongs: whether a process with this tag belongs to the tree.
        """
        self._belongs = belongs
        self._seen: dict[int, float] = {}

    def add(self, pid: int) -> None:
        """Counts a process as part of the tree, whatever its tag, for as long as it runs."""
        with contextlib.suppress(psutil.Error):
            self._seen[pid] = psutil.Process(pid).create_time()

    def find_running(self) -> tuple[int, ...]:
        """Pids of all processes of the tree that run.

        They are found by the tag; by their parent, if they overwrite their environment to change their title; and
        by an earlier call of this method, if they do that and their parent has ended since.
        """
        processes = _running()
        tags = {pid: _tag_of(pid) for pid in processes}
        found = {
            pid
            for pid, (_, started) in processes.items()
            if self._seen.get(pid) == started or self._belongs(tags[pid])
        }
        parents = {pid: parent for pid, (parent, _) in processes.items() if tags[pid] != WATCHDOG}
        while children := {pid for pid, parent in parents.items() if parent in found} - found:
            found |= children
        self._seen = {pid: processes[pid][1] for pid in found}
        return tuple(sorted(found))


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


def _tag_of(pid: int) -> str:
    with contextlib.suppress(psutil.Error, OSError):
        return psutil.Process(pid).environ().get(TAG, "")
    return ""
