"""The journal: a worker writes the events of its manifest through it, one JSON object a line."""

from __future__ import annotations

from dataclasses import asdict

# By name: a test may replace what its module holds, and its events must still be written.
from os import getpid
from pathlib import Path
from typing import IO, Any

from pytest_nsight.model.errors import name_error
from pytest_nsight.model.json_text import format_any
from pytest_nsight.model.values import Work
from pytest_nsight.protocol.conditions import Conditions
from pytest_nsight.protocol.manifest_events import IdentifiedCase, Round, TunedCase


class Journal:
    """Writes a manifest, line by line; every line reaches the file before the next thing happens."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8")
        self._pid = getpid()

    def write(self, event: str, **values: Any) -> None:
        """Appends one event; in a process that a test has forked it does nothing."""
        if getpid() != self._pid:
            return
        self._file.write(format_any({"event": event, **values}) + "\n")
        self._file.flush()

    def write_work(self, case: str, work: Work) -> None:
        """Appends what a round of the case has to do."""
        self.write("work", case=case, **asdict(work))

    def write_fault(self, event: str, case: str, error: Exception) -> None:
        """Appends an error that costs no test its result, cut to one line."""
        self.write(event, case=case, text=name_error(error))

    def write_identity(self, identified: IdentifiedCase) -> None:
        """Appends the identity of a case."""
        self.write("identity", **asdict(identified))

    def write_tuned(self, tuned: TunedCase) -> None:
        """Appends what autotuners have chosen for a case, if they have."""
        if tuned.kernels:
            self.write("tuned", **asdict(tuned))

    def write_conditions(self, conditions: Conditions) -> None:
        """Appends the conditions of a case."""
        self.write("conditions", **asdict(conditions))

    def write_round(self, measured: Round) -> None:
        """Appends one measured round."""
        self.write("round", **asdict(measured))
