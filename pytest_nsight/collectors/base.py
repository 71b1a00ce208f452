"""What every collector is to the rest: a way to start a worker under it, and a Trace afterwards.

MERGED: What records the device's work while a worker measures: the seam between rounds and collectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pytest_nsight.collectors.child_process import ChildProcess
from pytest_nsight.model.trace import Trace


class Collector(Protocol):
    """Records one worker process.

    Attributes:
        name: "nsys" or "torch".
        title: for people, with the version and the place.
        recorder: which recorder the worker uses ("nsys" or "torch").
        environment: what a measurement depends on, as names and values.
        is_shared: whether what the worker starts is recorded with it, in one record.
        times_processor: whether the processor's own time is what is measured, so that nothing may work beside it.
    """

    name: str
    title: str
    recorder: str
    environment: Mapping[str, str]
    is_shared: bool
    times_processor: bool

    def start(self, worker: Sequence[str], folder: Path, cwd: Path, environ: Mapping[str, str]) -> ChildProcess:
        """Starts the worker and records it into the folder; its output goes to the folder's WORKER_LOG.

        Raises:
            CollectorError: it cannot be started.
        """

    def collect(self, folder: Path) -> Trace:
        """Reads what was recorded.

        Raises:
            CollectorError: nothing was recorded, or it cannot be read.
        """

    def tidy(self, folder: Path, *, keep: bool) -> None:
        """Removes the raw record, which holds the environment's secrets; keeps a scrubbed one if asked."""


class Recorder(Protocol):
    """Marks the ranges of rounds in whatever record is being made of the process."""

    def start(self) -> None:
        """Called before the warm-up of a case."""

    def stop(self) -> None:
        """Called after the last round of a case."""

    def push(self, name: str, payload: int) -> None:
        """Opens a range; `payload` identifies it, `name` is for people."""

    def pop(self) -> None:
        """Closes the range opened last."""
