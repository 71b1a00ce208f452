"""A process that ends what this one has started once this one is no more, however it ended.

Nothing in the controller or in a worker could do that: SIGKILL leaves the one no time, and a thread of the other
never gets its turn during a C call that holds the interpreter's lock. The watchdog waits on a pipe that the kernel
closes together with its owner, and then kills all that carries the owner's tag.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from sysconfig import get_config_var, get_path

from pytest_nsight.model.errors import CollectorError
from pytest_nsight.processes.process_tree import TAG, WATCHDOG, ProcessTree
from pytest_nsight.processes.signals import send

_POLL_S = 1.0
_PAUSE_S = 0.05
_LONGEST_S = 10.0
"""What a driver does not let go of may live on after SIGKILL; then the watchdog gives up."""

_START = """import sys
sys.path[:] = sys.argv[3:]
from pytest_nsight.processes.watchdog import watch
watch(int(sys.argv[1]), sys.argv[2])"""


class Watchdog:
    """The owner's end: one watchdog for the whole process, started with the first program that needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._owner_pid = 0
        self._owner = ""
        self._numbers = itertools.count(1)

    def make_tag(self) -> str:
        """A tag for one more program and all that it will start.

        Raises:
            CollectorError: no watchdog can be started, so nothing should be.
        """
        with self._lock:
            # A fork of this process is another owner, which may outlive this one.
            if self._owner_pid != os.getpid():
                self._popen, self._owner_pid, self._owner = None, os.getpid(), secrets.token_hex(16)
            if self._popen is None or self._has_ended(self._popen):
                self._popen = self._start()
            return f"{self._owner}.{next(self._numbers)}"

    def _has_ended(self, popen: subprocess.Popen[bytes]) -> bool:
        code = popen.poll()
        if code is not None and code > 0:
            raise CollectorError(
                f"the watchdog that ends what a killed session leaves behind has failed with exit code {code}: "
                f"check that {sys.executable} can import psutil"
            )
        return code is not None

    def _start(self) -> subprocess.Popen[bytes]:
        # Python's own first: a folder of tests that pytest has put before it may have a signal.py. Not what is
        # relative: it means something else in the watchdog's folder.
        standard = (get_path("stdlib"), get_path("platstdlib"), get_config_var("DESTSHARED"))
        user = (entry for entry in sys.path if Path(entry).is_absolute())
        path = [*filter(None, standard), str(Path(__file__).parents[2]), *user]
        try:
            popen = subprocess.Popen(
                # -S: what site adds is in the path already.
                (sys.executable, "-S", "-c", _START, str(os.getpid()), self._owner, *path),
                # The only other end of this pipe is here, and a program that is started does not inherit it.
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={**os.environ, TAG: WATCHDOG},
                # Neither Ctrl-C nor the end of the terminal is for it.
                start_new_session=True,
            )
        except OSError as error:
            raise CollectorError(
                f"Cannot start {sys.executable}: {error.strerror or error}; check the limit on processes"
            ) from error
        atexit.register(self._release, popen, os.getpid())
        return popen

    def _release(self, popen: subprocess.Popen[bytes], owner_pid: int) -> None:
        """Lets the watchdog search once more and end."""
        if os.getpid() != owner_pid or popen.stdin is None:
            return
        # Not its end alone: a fork of this process may hold the pipe open.
        with contextlib.suppress(BrokenPipeError), popen.stdin:
            popen.stdin.write(b".")
        with contextlib.suppress(subprocess.TimeoutExpired):
            popen.wait(2 * _LONGEST_S)


_WATCHDOG = Watchdog()


def watched(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for a program that must not outlive this process, nor anything that it starts.

    Args:
        environ: the program's environment variables otherwise.

    Raises:
        CollectorError: no watchdog can be started.
    """
    return {**environ, TAG: _WATCHDOG.make_tag()}


def watch(owner_pid: int, owner: str) -> None:
    """Waits for the end of a process, then ends all that carries its tags.

    Args:
        owner_pid: the process, which has started this one with a pipe to its stdin.
        owner: what its tags begin with.
    """
    poll = select.poll()
    # The end of the pipe is reported, too, without being asked for.
    poll.register(0, select.POLLIN)
    # A fork of the owner keeps the pipe open, and must not keep the programs alive.
    while os.getppid() == owner_pid and not poll.poll(1000 * _POLL_S):
        pass
    tree = ProcessTree(lambda tag: tag.startswith(f"{owner}."))
    deadline_s = time.monotonic() + _LONGEST_S
    searches = 1
    while searches and time.monotonic() < deadline_s:
        left = tree.find_running()
        for pid in left:
            send(pid, signal.SIGKILL)
        # As long as the pipe is open the owner may have a child that has not come as far as its own environment.
        if left or not poll.poll(0):
            searches = 2
        searches -= 1
        time.sleep(_PAUSE_S if searches else 0)
