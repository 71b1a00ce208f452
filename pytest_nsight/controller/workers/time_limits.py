"""How long a case may take: a worker that takes longer is ended, and only that case fails."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType

import psutil

from pytest_nsight.controller.workers.manifest_tail import Progress
from pytest_nsight.model.errors import unwritable
from pytest_nsight.model.units import count, duration
from pytest_nsight.protocol.json_files import read_json_file

OVERDUE_FILE = "overdue.json"
_STACK_S = 2.0
"""How long a worker may take to write the stacks of its threads."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long cases may take in one process, set-up and teardown included.

    Attributes:
        default_s: of a case whose mark does not say, and of all before the first case.
        by_case: case -> its own limit in seconds.
    """

    default_s: float
    by_case: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, case: str) -> float:
        """The limit of a case in seconds; for "", the limit of everything before the first case."""
        return self.by_case.get(case, self.default_s)


@dataclass(frozen=True, slots=True)
class Overdue:
    """A case that took too long.

    Attributes:
        case: node id, "" if none ran.
        limit_s: how long it could take.
        done: how many cases had come to their end before.
    """

    case: str
    limit_s: float
    done: int = 0

    def describe(self, log: Path) -> str:
        """What happened, and what to type."""
        limit = duration(1e9 * self.limit_s)
        if not self.case and self.done:
            return (
                f"the worker process did not go on within {limit} after {count(self.done, 'test')} and was ended: "
                "a thread, a hook, atexit or a script between two calls held it up; where it stood is in "
                f"{log}; set nsight_timeout if it needs more"
            )
        if not self.case:
            return (
                f"the worker process began no test within {limit} and was ended; its output is in {log}; set "
                "nsight_timeout if its imports take so long"
            )
        return (
            f"{self.case} took longer than {limit} and was ended; where it stood is in {log}; give it more time "
            'with @pytest.mark.nsight(timeout="...") or the ini setting nsight_timeout'
        )


class CaseClock:
    """Watches how long the case of one worker has been running."""

    def __init__(self, limits: TimeLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._seen: tuple[str, int] | None = None
        self._since_s = clock()

    def find_overdue(
        self, progress: Progress, *, has_begun: bool = True, has_ended: bool = False
    ) -> Overdue | None:
        """The case that has run too long, None while all is in time.

        Args:
            progress: of the worker.
            has_begun: whether the worker has been started; time before does not count.
            has_ended: whether it is gone: what still runs is the profiler, which has limits of its own.
        """
        now_s = self._clock()
        position = (progress.case, progress.done)
        if position != self._seen or not has_begun or has_ended:
            self._seen, self._since_s = position, now_s
        limit_s = self._limits.of(progress.case)
        return Overdue(progress.case, limit_s, progress.done) if now_s - self._since_s > limit_s else None


def end_overdue(folder: Path, pid: int | None, overdue: Overdue) -> None:
    """Ends a worker, with the stacks of its threads in its log, and records why in its folder.

    Args:
        folder: of the worker.
        pid: of the worker, None if it has not said so yet.
        overdue: what took too long.

    Raises:
        CollectorError: the record cannot be written; the worker is ended all the same.
    """
    try:
        (folder / OVERDUE_FILE).write_text(json.dumps(asdict(overdue)), encoding="utf-8")
    except OSError as error:
        raise unwritable(folder, error) from None
    finally:
        if pid is not None:
            _end_worker(pid)


def _end_worker(pid: int) -> None:
    with contextlib.suppress(psutil.Error, OSError):
        worker = psutil.Process(pid)
        started = worker.children(recursive=True)
        # pytest's faulthandler writes the stacks where the test has not chosen otherwise.
        os.kill(pid, signal.SIGABRT)
        with contextlib.suppress(psutil.TimeoutExpired):
            worker.wait(_STACK_S)
        for process in (worker, *started):
            with contextlib.suppress(psutil.Error):
                process.kill()


def read_overdue(folder: Path) -> Overdue | None:
    """Why a worker was ended, None if it was not for its time.

    Raises:
        RecordingError: the record of it is damaged, or no file.
    """
    path = folder / OVERDUE_FILE
    return read_json_file(Overdue, path) if os.path.lexists(path) else None
