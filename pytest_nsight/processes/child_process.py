"""One worker process, under a profiler or not: started, waited for, and ended with everything that it started."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pytest_nsight.model.errors import CollectorError
from pytest_nsight.processes.process_tree import TAG, ProcessTree, is_called
from pytest_nsight.processes.signals import kill_group, send
from pytest_nsight.processes.watchdog import watched

_POLL_S = 0.02
_KILL_S = 5.0
_TIDY_S = 5.0
_RESTARTS = 2
_AT_ONCE_S = 5.0
"""A wrapper that fails later has a reason that lasts: nsys looks for its agent for ten seconds."""


def _never() -> str:
    return ""


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How a program behaves that runs another one; the defaults are those of one that runs none.

    Attributes:
        shell_codes: whether exit code 128 + n means that signal n ended the other one, as nsys has it.
        overdue: asked at each poll while the program runs: why it has to be ended, "" if it has not.
        has_begun: whether the other one has been started. A wrapper that fails at once, before that, is started
            again, twice at most.
        helper: name of programs of the wrapper's own that outlive it for a moment; they may end by themselves.
    """

    shell_codes: bool = False
    overdue: Callable[[], str] = _never
    has_begun: Callable[[], bool] = _always
    helper: str = ""


_NO_WRAPPER = Wrapper()


class ChildProcess:
    """A running worker; made by `start`.

    Attributes:
        pid: of the started program: the profiler where there is one, else the worker itself.
        log: file with everything that the program and its children wrote to stdout and stderr.
        was_overdue: whether it was ended because it came to no end by itself.
    """

    def __init__(
        self, launch: Callable[[], subprocess.Popen[bytes]], log: Path, tag: str, wrapper: Wrapper
    ) -> None:
        self.log = log
        self.was_overdue = False
        self._launch = launch
        self._tree = ProcessTree(lambda other: other == tag)
        self._wrapper = wrapper
        self._overdue = wrapper.overdue
        self._restarts = _RESTARTS
        self._begin()

    def _begin(self) -> None:
        self._popen = self._launch()
        self._began_s = time.monotonic()
        self.pid = self._popen.pid
        self._tree.add(self.pid)

    def __enter__(self) -> ChildProcess:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends what is still running, when the caller leaves by an exception, say."""
        self._restarts = 0
        if self.poll() is None:
            self.interrupt()
        else:
            self._await_helpers()
            self._kill_running()

    @property
    def returncode(self) -> int | None:
        """Exit code of the worker, -n where signal n killed it, None while it runs."""
        code = self._popen.returncode
        if self._wrapper.shell_codes and code is not None and 128 < code <= 128 + signal.NSIG:
            return 128 - code
        return code

    def poll(self) -> int | None:
        """The return code if the process has ended, else None.

        Returns at once, unless the process has to be ended because it is overdue; the log then says why. One that
        fails at once, before it has begun what it was started for, is started again.
        """
        if self._is_false_start():
            self._restarts -= 1
            self._await_helpers()
            self._kill_running()
            self._begin()
        if self._popen.poll() is None and (reason := self._overdue()):
            # It may still end with an error of its own, as its children are killed first.
            self._overdue, self._restarts, self.was_overdue = _never, 0, True
            with contextlib.suppress(OSError), self.log.open("a", encoding="utf-8") as log:
                log.write(f"\n{ENDED}{reason}.\n")
            self._kill_running()
            self._popen.wait()
        return self.returncode

    def _is_false_start(self) -> bool:
        code = self._popen.poll()
        has_failed = code is not None and code > 0 and not self._wrapper.has_begun()
        return has_failed and self._restarts > 0 and time.monotonic() - self._began_s < _AT_ONCE_S

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Waits for the end of the process.

        Args:
            timeout_s: how long at most; None for ever.

        Returns:
            The return code, or None where the time was up first: the process runs on.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while self.poll() is None and (deadline_s is None or time.monotonic() < deadline_s):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(_POLL_S)
        return self.returncode

    def find_running(self) -> tuple[int, ...]:
        """Pids of all running processes that this one started, directly or not, itself included."""
        return self._tree.find_running()

    def interrupt(self, target_pid: int | None = None, grace_s: float = 10.0) -> tuple[int, ...]:
        """Asks the process to stop and, after a while, kills it with everything that it started.

        A profiler hands the interrupt on to its target and writes its report; some versions (2022.4) then
        return while the target still runs, so the end of all of them is what is waited for.

        Args:
            target_pid: pid of the worker where it is known; its process group is killed, too.
            grace_s: how long they may take to end by themselves.

        Returns:
            Pids that live on although they were killed, because a driver holds them; normally none.
        """
        self._overdue, self._restarts = _never, 0
        if target_pid is not None:
            self._tree.add(target_pid)
        if self.find_running() and self._popen.poll() is None:
            send(self.pid, signal.SIGINT)
        deadline = time.monotonic() + grace_s
        while self.find_running() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if target_pid is not None:
            kill_group(target_pid)
        left = self._kill_running()
        self._popen.poll()
        return left

    def _await_helpers(self) -> None:
        """Gives the program's helpers time to tidy up: killed in between, they leave shared things half made."""
        deadline = time.monotonic() + _TIDY_S
        helper = self._wrapper.helper
        while helper and time.monotonic() < deadline:
            if not any(is_called(pid, helper) for pid in self.find_running()):
                return
            time.sleep(_POLL_S / 4)

    def _kill_running(self) -> tuple[int, ...]:
        deadline = time.monotonic() + _KILL_S
        # A parent can start something, an import say, while its children end: search until none is left.
        while (left := self.find_running()) and time.monotonic() < deadline:
            # The started program goes last: its children would otherwise be adopted and write on.
            for pid in sorted(left, key=lambda pid: pid == self.pid):
                send(pid, signal.SIGKILL)
            time.sleep(_POLL_S)
        return left


ENDED = "pytest-nsight ended this process: "
"""Begins the line of a log that says why a process was ended."""


def start(
    argv: Sequence[str],
    log: Path,
    cwd: Path,
    environ: Mapping[str, str],
    wrapper: Wrapper = _NO_WRAPPER,
) -> ChildProcess:
    """Starts a program that ends with this process, in a session of its own: Ctrl-C does not reach it.

    Args:
        argv: program and arguments.
        log: file to write its stdout and stderr to; overwritten.
        cwd: folder to run it in.
        environ: its environment variables.
        wrapper: how the program behaves.

    Raises:
        CollectorError: the program or the log file cannot be opened, or nothing would end it with this process.
    """
    own_environ = watched(environ)

    def launch() -> subprocess.Popen[bytes]:
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            # Appending, because nsys opens its streams anew and would write over what others wrote.
            with log.open("ab") as output:
                return subprocess.Popen(
                    argv,
                    cwd=cwd,
                    env=own_environ,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise CollectorError(
                f"Cannot start {argv[0]} in {cwd} with its output in {log}: {error.strerror or error}; check "
                "that the program, the folder and the log file can be opened."
            ) from error

    with contextlib.suppress(OSError):
        log.unlink(missing_ok=True)
    return ChildProcess(launch, log, own_environ[TAG], wrapper)
