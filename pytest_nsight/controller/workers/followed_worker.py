"""A worker that runs, as the controller follows it: how far it is, what it asks for, whether it is overdue."""

from __future__ import annotations

import contextlib
from pathlib import Path

from pytest_nsight.controller.workers.manifest_tail import Progress, Tail
from pytest_nsight.controller.workers.prewarmed import PrewarmedWorker
from pytest_nsight.controller.workers.time_limits import CaseClock, TimeLimits, end_overdue
from pytest_nsight.controller.workers.worker_failure import describe_removal
from pytest_nsight.model.errors import CollectorError
from pytest_nsight.protocol.job import INTERRUPTED_FILE
from pytest_nsight.protocol.manifest import FILE_NAME


class FollowedWorker:
    """One worker that runs: how far it is, and whether it runs over its time.

    Attributes:
        tail: of its record.
        progress: where it stands.
        answers: how many of its questions for more cases have been answered.
    """

    def __init__(self, running: PrewarmedWorker, total: int, limits: TimeLimits) -> None:
        self._running = running
        self._journal = running.folder / FILE_NAME
        self._clock = CaseClock(limits)
        self.tail = Tail(self._journal)
        self.progress = Progress(running.run, "", 0, total)
        self.answers = 0

    @property
    def is_running(self) -> bool:
        """Whether it has not come to its end."""
        return self._running.process.poll() is None

    def advance(self) -> Progress:
        """Reads what it has written since, and ends it if it runs over its time.

        Raises:
            CollectorError: see `end_overdue`.
        """
        self.progress = self.tail.advance(self.progress)
        has_ended = self.tail.has_ended()
        overdue = self._clock.find_overdue(self.progress, has_ended=has_ended) if self.is_running else None
        if overdue:
            end_overdue(self._running.folder, self.tail.pid or self._running.process.pid, overdue)
        return self.progress

    def interrupt(self) -> None:
        """Ends it as the user's interrupt does, and marks its folder.

        Raises:
            KeyboardInterrupt: it has not come far enough to have a record.
        """
        self.tail.advance(self.progress)
        self._running.process.interrupt(self.tail.pid)
        if not self._journal.exists():
            raise KeyboardInterrupt
        mark_interrupted(self._running.folder)

    def end(self) -> int | None:
        """Its exit code.

        Raises:
            CollectorError: somebody has removed what it writes.
        """
        if self.tail.pid is not None and not self._journal.exists():
            raise CollectorError(describe_removal(self._journal))
        return self._running.process.poll()


def mark_interrupted(folder: Path) -> None:
    """Marks a run's folder, so that a replay counts no process as failed; does nothing on a full disk."""
    with contextlib.suppress(OSError):
        (folder / INTERRUPTED_FILE).touch()
