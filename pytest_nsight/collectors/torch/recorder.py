"""The collector for machines without Nsight Systems or without a GPU: torch.profiler inside the worker.

Kernels come from CUPTI where there is CUDA; elsewhere the outermost operators take their place.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_nsight.collectors.child_process import ChildProcess, start
from pytest_nsight.collectors.torch.events import build_trace
from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.trace import Trace
from pytest_nsight.protocol.job import WORKER_LOG

PREFIX = "pytest_nsight:"
"""A range of ours is a record_function named `pytest_nsight:<payload>:<name>`."""

_KEPT_CATEGORIES = {
    "cpu_op", "user_annotation", "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver",
}  # fmt: skip
_KEPT_FIELDS = ("cat", "name", "ts", "dur", "pid", "tid")
_KEPT_ARGUMENTS = (
    "device", "stream", "correlation", "grid", "block", "registers per thread", "shared memory", "bytes", "context",
)  # fmt: skip


class TorchRecorder:
    """Profiles each case and writes one file for it, `trace-<n>.json.gz`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._profiler: Any = None
        self._open: list[Any] = []
        self._written = 0

    def start(self) -> None:
        """Starts profiling."""
        import torch  # noqa: PLC0415 - heavy, and only a measuring process needs it

        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._profiler = torch.profiler.profile(activities=activities)
        with _silence():
            self._profiler.__enter__()

    def stop(self) -> None:
        """Ends profiling and writes what it saw."""
        with _silence():
            self._profiler.__exit__(None, None, None)
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            path = Path(scratch, "chrome.json")
            self._profiler.export_chrome_trace(str(path))
            record = json.loads(path.read_text(encoding="utf-8"))
        self._profiler = None
        self._written += 1
        with gzip.open(self._folder / f"trace-{self._written:04}.json.gz", "wt", encoding="utf-8") as file:
            json.dump([_kept(event) for event in record["traceEvents"] if _is_kept(event)], file)

    def push(self, name: str, payload: int) -> None:
        """Opens a range."""
        import torch  # noqa: PLC0415

        opened = torch.profiler.record_function(f"{PREFIX}{payload}:{name}")
        opened.__enter__()
        self._open.append(opened)

    def pop(self) -> None:
        """Closes the range opened last."""
        self._open.pop().__exit__(None, None, None)


@contextmanager
def _silence() -> Iterator[None]:
    """Keeps Kineto, which announces each start and stop on stderr, out of the tests' captured output."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


def _is_kept(event: Mapping[str, Any]) -> bool:
    return event.get("ph") == "X" and event.get("cat") in _KEPT_CATEGORIES


def _kept(event: Mapping[str, Any]) -> dict[str, Any]:
    """What a reader needs of an event, and nothing that tells of the machine."""
    arguments = event.get("args", {})
    kept = {name: event[name] for name in _KEPT_FIELDS if name in event}
    kept["args"] = {name: arguments[name] for name in _KEPT_ARGUMENTS if name in arguments}
    return kept


class TorchCollector:
    """Starts workers as they are: they profile themselves."""

    name = "torch"
    recorder = "torch"
    is_shared = False
    environment: Mapping[str, str] = {}

    def __init__(self, title: str, *, times_processor: bool) -> None:
        self.title = title
        self.times_processor = times_processor

    def start(self, worker: Sequence[str], folder: Path, cwd: Path, environ: Mapping[str, str]) -> ChildProcess:
        """Starts the worker on its own: it profiles itself."""
        return start(worker, folder / WORKER_LOG, cwd, environ)

    def collect(self, folder: Path) -> Trace:
        """Reads what the worker wrote.

        Raises:
            TraceError: it wrote nothing, or something else.
        """
        trace = read_kept(folder)
        if trace is None:
            raise TraceError(f"torch.profiler left no trace in {folder}: no test got as far as measuring anything")
        return trace

    def tidy(self, folder: Path, *, keep: bool) -> None:
        """Removes the traces unless they are to be kept; they hold nothing secret."""
        if not keep:
            for path in folder.glob("trace-*.json.gz"):
                path.unlink()


def read_kept(folder: Path) -> Trace | None:
    """Reads the traces in a run's folder; None if there are none.

    Raises:
        TraceError: a file is cut off or holds something else.
    """
    paths = sorted(folder.glob("trace-*.json.gz"))
    if not paths:
        return None
    return build_trace([_load(path) for path in paths], PREFIX)


def _load(path: Path) -> list[dict[str, Any]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            events: list[dict[str, Any]] = json.load(file)
    except (OSError, EOFError, ValueError) as error:
        raise TraceError(f"{path} cannot be read ({error}); record the session again") from None
    return events
