"""Starts one worker process, under a profiler or not, and makes sure that nothing of it stays behind."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from pytest_nsight.model.errors import CollectorError

_MARK = "PYTEST_NSIGHT_PROCESS"
_POLL_S = 0.02
_KILL_S = 5.0
_PROC = Path("/proc")


class ChildProcess:
    """A running worker; made by `start`.

    Attributes:
        pid: of the started program: the profiler where there is one, else the worker itself.
        log: file with everything that the program and its children wrote to stdout and stderr.
    """

    def __init__(self, popen: subprocess.Popen[bytes], log: Path, mark: str, *, shell_codes: bool) -> None:
        self.pid = popen.pid
        self.log = log
        self._popen = popen
        self._mark = f"{_MARK}={mark}".encode()
        self._shell_codes = shell_codes
        self._seen: dict[int, int] = {}

    def __enter__(self) -> ChildProcess:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends what is still running, when the caller leaves by an exception, say."""
        if self.poll() is None:
            self.interrupt()
        else:
            self._kill_leftovers()

    @property
    def returncode(self) -> int | None:
        """Exit code of the worker, -n where signal n killed it, None while it runs."""
        code = self._popen.returncode
        if self._shell_codes and code is not None and 128 < code <= 128 + signal.NSIG:
            return 128 - code
        return code

    def poll(self) -> int | None:
        """The return code if the process has ended, else None; returns at once."""
        self._popen.poll()
        return self.returncode

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Waits for the end of the process.

        Args:
            timeout_s: how long at most; None for ever.

        Returns:
            The return code, or None where the time was up first: the process runs on.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout_s)
        return self.returncode

    def leftovers(self) -> tuple[int, ...]:
        """Pids of all running processes that this one started, directly or not, itself included.

        Found by a variable that `start` puts into the environment, which a child keeps when it leaves the
        process group or outlives its parent; and by parent, for those that overwrite their environment to
        change their title.
        """
        family = {self.pid} if self.poll() is None else set()
        processes = _running()
        for pid, (_, started) in processes.items():
            if self._seen.get(pid) == started or self._mark in _environment(pid):
                family.add(pid)
        while children := {pid for pid, (parent, _) in processes.items() if parent in family} - family:
            family |= children
        # A child whose parent dies first could not be found again by its parent.
        self._seen = {pid: processes[pid][1] for pid in family if pid in processes}
        return tuple(sorted(family))

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
        if target_pid is not None and target_pid in (processes := _running()):
            self._seen[target_pid] = processes[target_pid][1]
        if self.leftovers() and self.poll() is None:
            _send(self.pid, signal.SIGINT)
        deadline = time.monotonic() + grace_s
        while self.leftovers() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        if target_pid is not None:
            _kill_group(target_pid)
        return self._kill_leftovers()

    def _kill_leftovers(self) -> tuple[int, ...]:
        deadline = time.monotonic() + _KILL_S
        # A parent can start something, an import say, while its children die: look until none is left.
        while (left := self.leftovers()) and time.monotonic() < deadline:
            # The started program goes last: its children would otherwise be adopted and write on.
            for pid in sorted(left, key=lambda pid: pid == self.pid):
                _send(pid, signal.SIGKILL)
            time.sleep(_POLL_S)
        return left


def start(
    argv: Sequence[str], log: Path, cwd: Path, environ: Mapping[str, str], *, shell_codes: bool = False
) -> ChildProcess:
    """Starts a program in a session of its own, so that Ctrl-C at the terminal does not reach it.

    Args:
        argv: program and arguments.
        log: file to write its stdout and stderr to; overwritten.
        cwd: folder to run it in.
        environ: its environment variables.
        shell_codes: whether the program reports a death by signal n as exit code 128 + n, as nsys does.

    Raises:
        CollectorError: the program or the log file cannot be opened.
    """
    mark = secrets.token_hex(16)
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        # Appending, because nsys opens its streams anew and would write over what others wrote.
        with log.open("ab") as output:
            popen = subprocess.Popen(
                argv,
                cwd=cwd,
                env={**environ, _MARK: mark},
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
    return ChildProcess(popen, log, mark, shell_codes=shell_codes)


def last_lines(log: Path, count: int = 5) -> str:
    """The last lines of a log that say something, for a message; "" where there is no log.

    Args:
        log: the log of a `ChildProcess`.
        count: how many lines at most.
    """
    try:
        text = log.read_bytes().decode(errors="replace")
    except OSError:
        return ""
    # Progress bars overwrite themselves with carriage returns: each state would be a line.
    lines = (line.rsplit("\r", 1)[-1].strip() for line in text.replace("\r\n", "\n").split("\n"))
    return "\n".join([line for line in lines if line][-count:])


def is_running(pid: int | None) -> bool:
    """Whether there is such a process, and it has not ended yet."""
    return pid in _running()


def _running() -> dict[int, tuple[int, int]]:
    """Pid -> parent's pid and time of start in clock ticks, of all processes but this one and the dead."""
    found = {}
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text(errors="replace")
                # The second field is the program's name in brackets, which may hold spaces and brackets.
                fields = stat.rpartition(")")[2].split()
                # A zombie has ended, though nobody has asked for its exit code yet.
                if fields[0] not in "ZX":
                    found[int(entry.name)] = int(fields[1]), int(fields[19])
    return found


def _environment(pid: int) -> bytes:
    try:
        return (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return b""


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        group = os.getpgid(pid)
        if group != os.getpgrp():
            os.killpg(group, signal.SIGKILL)
