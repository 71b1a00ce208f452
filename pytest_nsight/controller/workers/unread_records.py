"""Records that could not be read: how many of them end a session."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

from pytest_nsight.model.errors import CollectorError
from pytest_nsight.protocol.job import UNREAD_FILE
from pytest_nsight.trace.process_record import ProcessEnd, ProcessRecord

_MOST_UNREAD, _MOST_UNREAD_OF_ONE = 4, 2
"""So many processes without one that could be read show that nothing works here: of several cases and of one.

These are the first one, the same cases again, one case alone, and half of the others.
"""

_LONGEST_UNREAD_S = 900.0
"""A profiler that hangs may take so long, and would again."""


class UnreadRecords:
    """Counts the processes of a session whose record could not be read."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._has_read = False
        self._unread = 0
        self._cases = set[str]()

    def count(self, folder: Path, records: Iterable[ProcessRecord]) -> None:
        """Counts one run, and marks its folder for a replay.

        Args:
            folder: of the run.
            records: of its processes.

        Raises:
            CollectorError: no record of the session could be read, and another process would fare no better.
        """
        records = tuple(records)
        errors = [one.trace_error for one in records if one.end is ProcessEnd.COMPLETE and one.trace_error]
        self._has_read = self._has_read or any(one.trace is not None for one in records)
        if not errors:
            return
        with contextlib.suppress(OSError):
            (folder / UNREAD_FILE).write_text(errors[0], encoding="utf-8", errors="backslashreplace")
        self._unread += 1
        self._cases.update(case for one in records for case in one.manifest.ended)
        most = _MOST_UNREAD if len(self._cases) > 1 else _MOST_UNREAD_OF_ONE
        is_long = time.monotonic() - self._began_s >= _LONGEST_UNREAD_S
        if (self._unread >= most or is_long) and not self._has_read:
            raise CollectorError(errors[0])
