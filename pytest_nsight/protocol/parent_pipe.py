"""The pipe from the controller to a worker: it announces assignments, or that there will be none.

A named pipe in the run's folder. The controller holds it open. A line of it says that the assignment has been
written, or names a module that the worker imports while it waits; its end means that nobody waits for the worker
any more. A profiler between the two processes does not matter, and waiting costs no CPU time.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable
from pathlib import Path

from pytest_nsight.model.errors import unwritable
from pytest_nsight.protocol.job import Assignment

FILE_NAME = "parent.pipe"
_ASSIGNED = b"!"
_MOST_BYTES = 4096


class PipeToWorker:
    """The controller's end."""

    def __init__(self, folder: Path) -> None:
        """Makes the pipe.

        Raises:
            OSError: the folder cannot hold one.
        """
        self._folder = folder
        self._path = folder / FILE_NAME
        os.mkfifo(self._path)
        # For reading, too, so that opening does not wait for the worker.
        self._pipe: int | None = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)

    def send(self, assignment: Assignment) -> None:
        """Gives the worker its assignment, or further cases once it has asked for them.

        Raises:
            CollectorError: the folder cannot be written.
        """
        if self._pipe is None:
            return
        try:
            assignment.write(self._folder)
        except OSError as error:
            raise unwritable(self._folder, error) from None
        os.write(self._pipe, _ASSIGNED + b"\n")

    def suggest_import(self, module: str) -> None:
        """Has the worker import a module while it waits; does nothing once the pipe is closed."""
        if self._pipe is not None:
            os.write(self._pipe, f"{module}\n".encode())

    def close(self) -> None:
        """Closes the pipe, which ends the worker if it still waits for its first assignment."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


class PipeFromParent:
    """The worker's end."""

    def __init__(self, folder: Path) -> None:
        """Opens the pipe.

        Raises:
            FileNotFoundError: there is none, because the controller has closed it already.
        """
        self._folder = folder
        self._pipe = os.open(folder / FILE_NAME, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_assigned = False

    @property
    def is_given_up(self) -> bool:
        """Whether the controller has closed the pipe, or died, before it sent an assignment."""
        if self._is_assigned:
            return False
        poll = select.poll()
        poll.register(self._pipe, 0)
        # A descriptor that the user's code has closed says nothing about the controller.
        return any(event & select.POLLHUP for _, event in poll.poll(0))

    def wait_for_assignment(self, import_early: Callable[[str], None] | None = None) -> Assignment | None:
        """The assignment, waited for; None if the pipe is closed.

        Args:
            import_early: imports a module that a test may need; called while there is nothing else to do. Without
                it nothing is imported early.
        """
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        suggested: list[bytes] = []
        while True:
            try:
                lines = os.read(self._pipe, _MOST_BYTES).splitlines()
            except BlockingIOError:
                if suggested and import_early is not None:
                    import_early(suggested.pop(0).decode())
                else:
                    poll.poll()
                continue
            if not lines:
                return None
            if _ASSIGNED in lines:
                self._is_assigned = True
                return Assignment.read(self._folder)
            suggested += lines if import_early is not None else []
