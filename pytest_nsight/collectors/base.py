"""The interfaces of a collector: what the controller starts a worker under, and what marks rounds in the worker.

A collector comes as a `CollectorFactory`. Those of the package are named in `lookup.py`; a package of others
names its own in the entry point group `pytest_nsight.collectors`, and `--nsight-collector NAME` takes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pytest_nsight.model.identity import Identity
from pytest_nsight.model.trace import Trace
from pytest_nsight.processes.child_process import ChildProcess


@dataclass(frozen=True, slots=True)
class RecordingOptions:
    """What the user wants recorded beside the rounds.

    Attributes:
        user_ranges: whether NVTX ranges of the program and its libraries are recorded, too.
        visible_variables: names, with * for any text, of environment variables that a profiler may record although
            they are not among those that a process needs to start.
        keep_report: whether the profiler's own report stays, which may hold secrets.
        gpu_metrics: whether counters of the boards are sampled.
    """

    user_ranges: bool = False
    visible_variables: tuple[str, ...] = ()
    keep_report: bool = False
    gpu_metrics: bool = False


class Collector(Protocol):
    """Records worker processes; lives in the controller process.

    Attributes:
        name: as `--nsight-collector` takes it; the worker finds its recorder by it.
        title: for people, with the version and the place.
        environment: what a measurement depends on, as names and values.
        is_shared: whether what the worker starts is recorded with it, in one record.
        times_cpu: whether the CPU's own time is what is measured, so that nothing may work beside it.
    """

    name: str
    title: str
    environment: Mapping[str, str]
    is_shared: bool
    times_cpu: bool

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

    def explain_log(self, log: Path) -> str:
        """What the profiler says in a worker's output that went wrong, and what to do; "" if nothing is known."""

    def tidy(self, folder: Path, *, keep: bool) -> None:
        """Removes the raw record, which may hold secrets; keeps a record without them if asked."""


class Recorder(Protocol):
    """Marks the ranges of rounds in whatever record is being made of its process, a worker."""

    def start(self) -> None:
        """Called before the warm-up of a case."""

    def stop(self) -> None:
        """Called after the last round of a case."""

    def push(self, name: str, payload: int) -> None:
        """Opens a range; `payload` identifies it, `name` is for people."""

    def pop(self) -> None:
        """Closes the range opened last."""


class Identifier(Recorder, Protocol):
    """A recorder that also says what the rounds of cases launch; times do not count in its process.

    Attributes:
        rounds: of a case that it compares.
    """

    rounds: int

    def pause(self) -> AbstractContextManager[None]:
        """Ignores launches until it ends: a tuner times what it tries, and would time the observation, too."""

    def keep(self, case: str, name: str) -> None:
        """Keeps what the case launches whose rounds have this name."""

    def forget(self) -> None:
        """Forgets all records but those of the kept cases."""

    @property
    def is_due(self) -> bool:
        """Whether the kept cases should be identified: it costs nothing now, or many have come together."""

    def identify(self) -> Mapping[str, Identity]:
        """The identities of the cases kept since the last call, or why they have none."""


class CollectorFactory(Protocol):
    """One sort of collector: makes its part in the controller, its part in the worker, and reads what it kept."""

    def make_collector(self, options: RecordingOptions) -> Collector:
        """The collector, in the controller process.

        Raises:
            CollectorError: it cannot work on this machine; the message says why and what to do.
        """

    def make_recorder(self, folder: Path) -> Recorder:
        """The recorder, in the worker process, whose run has this folder."""

    def read_kept(self, folder: Path) -> Trace | None:
        """Reads what `Collector.tidy` kept in a run's folder; None if it kept nothing there.

        Raises:
            CollectorError: what is there cannot be read.
        """
