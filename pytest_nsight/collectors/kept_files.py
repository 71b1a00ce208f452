"""What a recorder inside the worker leaves in a run's folder: one file for each case, packed, without secrets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.trace import Trace
from pytest_nsight.processes.regular_files import read_bounded

MOST_BYTES = 2 * 1024**3
"""Unpacked, of one case: 10 000 rounds of 100 launches take about 0.5 GB as JSON of torch.profiler."""


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """The files of one sort of recorder.

    Attributes:
        pattern: of their names, which sort in the order of the cases.
        tool: what has recorded, as people read it.
        join: reads the files of a process, at least one; raises TraceError where one is cut off or holds something
            else.
    """

    pattern: str
    tool: str
    join: Callable[[Sequence[Path]], Trace]

    def read(self, folder: Path) -> Trace | None:
        """The trace in a run's folder; None if there is none.

        Raises:
            TraceError: a file is cut off or holds something else.
        """
        paths = self._list(folder)
        return self.join(paths) if paths else None

    def collect(self, folder: Path) -> Trace:
        """The trace of a run that has just ended.

        A file that a test has damaged is left out: its case then lacks its rounds, and no other does.

        Raises:
            TraceError: its worker wrote nothing, or nothing that can be read. Rounds may have been measured: it
                writes once they have ended, and may fail to.
        """
        paths = self._list(folder)
        if not paths:
            raise TraceError(
                f"{self.tool} left no trace in {folder}, where it writes one at the end of each test's rounds"
            )
        try:
            return self.join(paths)
        except TraceError:
            readable = [path for path in paths if self._can_read(path)]
            if not readable:
                raise
            return self.join(readable)

    def _list(self, folder: Path) -> list[Path]:
        return sorted(folder.glob(self.pattern))

    def _can_read(self, path: Path) -> bool:
        try:
            self.join([path])
        except TraceError:
            return False
        return True

    def remove(self, folder: Path) -> None:
        """Removes the files in a run's folder."""
        for path in folder.glob(self.pattern):
            path.unlink()


def read_case(path: Path) -> bytes:
    """The contents of the file of one case, unpacked.

    Raises:
        TraceError: it is no regular file, is cut off, or unpacks to more than MOST_BYTES.
    """
    return read_bounded(path, MOST_BYTES)
