"""Ties a worker process to the one that started it: it waits for its assignment, and ends when its starter does.

A named pipe in the run's folder. The starter holds it open: a byte in it means "here is your assignment", its end means
"end yourself", whether the starter let go of it or died. A profiler between the two does not matter, and waiting
costs no time of any processor.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from pathlib import Path

from pytest_nsight.model.errors import unwritable
from pytest_nsight.protocol.job import Assignment

FILE_NAME = "tether"
_GO = b"!"


class PipeToWorker:
    """The starter's end."""

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

    def release(self, assignment: Assignment) -> None:
        """Gives the worker its assignment, once.

        Raises:
            CollectorError: the folder does not take it.
        """
        if self._pipe is None:
            return
        try:
            assignment.write(self._folder)
        except OSError as error:
            raise unwritable(self._folder, error) from None
        os.write(self._pipe, _GO)

    def cut(self) -> None:
        """Ends the worker if it still waits or runs."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


class PipeFromParent:
    """The worker's end."""

    def __init__(self, folder: Path) -> None:
        """Takes hold of the pipe.

        Raises:
            OSError: there is none: the starter is gone.
        """
        self._folder = folder
        self._pipe = os.open(folder / FILE_NAME, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    @property
    def is_cut(self) -> bool:
        """Whether the starter is gone or wants no more of this process."""
        poll = select.poll()
        poll.register(self._pipe, 0)
        return bool(poll.poll(0))

    def wait(self) -> Assignment | None:
        """Waits for the starter's word; None if it is gone. From then on this process dies with the starter."""
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        try:
            word = os.read(self._pipe, 1)
        except BlockingIOError:
            poll.poll()
            word = os.read(self._pipe, 1)
        if not word:
            return None
        threading.Thread(target=self._die_with_starter, daemon=True).start()
        return Assignment.read(self._folder)

    def _die_with_starter(self) -> None:
        poll = select.poll()
        # No events but the end of the pipe, which is always told.
        poll.register(self._pipe, 0)
        poll.poll()
        os.kill(os.getpid(), signal.SIGKILL)
