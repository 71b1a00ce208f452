"""Records a case with torch.profiler, inside the worker, and writes what a reader needs of it."""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

# By name: a test may replace what its module holds, and its record must still be written.
from json import dumps
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pytest_nsight.model.errors import TraceError
from pytest_nsight.recorders.torch.written_json import parse_written, range_name, restored_name

_COMPRESSION = 5
_EXPORT = "chrome.json"
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
        # A second profiler would end the process with a segmentation fault.
        self._only_one = patch("torch.autograd.profiler._prepare_profiler", _refuse)

    def start(self) -> None:
        """Starts profiling.

        Raises:
            RuntimeError: the program is profiling already.
        """
        import torch  # noqa: PLC0415 - heavy, and only a measuring process needs it

        if torch.autograd._profiler_enabled():  # noqa: SLF001 - its only name
            _refuse()
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._profiler = torch.profiler.profile(activities=activities, experimental_config=_of_all_threads())
        with _silence():
            self._profiler.__enter__()
        self._only_one.start()

    def stop(self) -> None:
        """Ends profiling and writes what it saw."""
        self._only_one.stop()
        with _silence():
            self._profiler.__exit__(None, None, None)
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            with _named_harmlessly(scratch) as folder:
                self._profiler.export_chrome_trace(f"{folder}/{_EXPORT}")
            record = parse_written(Path(scratch, _EXPORT).read_text(encoding="utf-8", errors="replace"))
        self._profiler = None
        self._written += 1
        # As one text: written piece by piece, JSON is made by Python code, which took a quarter of a CPU session.
        text = dumps([_kept(event) for event in _events(record) if _is_kept(event)])
        with gzip.open(self._folder / f"trace-{self._written:04}.json.gz", "wb", _COMPRESSION) as file:
            file.write(text.encode())

    def push(self, name: str, payload: int) -> None:
        """Opens a range."""
        import torch  # noqa: PLC0415

        opened = torch.profiler.record_function(range_name(payload, name))
        opened.__enter__()
        self._open.append(opened)

    def pop(self) -> None:
        """Closes the range opened last."""
        self._open.pop().__exit__(None, None, None)


@contextmanager
def _named_harmlessly(folder: str) -> Iterator[str]:
    """Another path of the folder: torch writes a quote in it as it is, and changes backslashes and line feeds."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _refuse(*_: object, **__: object) -> None:
    raise RuntimeError(
        "torch.profiler records this test for --nsight, and only one profiler works in a process: measure without "
        "the test's own, or measure GPU kernels with --nsight-collector=nsys"
    )


def _of_all_threads() -> Any:
    """Has torch record the program's own threads, too; None where it can only record this one and autograd's."""
    from torch._C._profiler import _ExperimentalConfig  # noqa: PLC0415

    try:
        return _ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        # torch before 2.7
        return None


@contextmanager
def _silence() -> Iterator[None]:
    """Keeps Kineto, which announces each start and stop on stderr, out of the tests' captured output."""
    # A test may have closed it, or have set it to None.
    with suppress(ValueError, AttributeError):
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


def _events(record: object) -> list[Mapping[str, Any]]:
    if not isinstance(record, dict) or not isinstance(record.get("traceEvents"), list):
        raise TraceError("torch.profiler wrote no list of events; update torch")
    events: list[Mapping[str, Any]] = record["traceEvents"]
    return events


def _is_kept(event: Mapping[str, Any]) -> bool:
    return event.get("ph") == "X" and event.get("cat") in _KEPT_CATEGORIES


def _kept(event: Mapping[str, Any]) -> dict[str, Any]:
    """What a reader needs of an event, and nothing else that says whose machine it is."""
    arguments = event.get("args", {})
    kept = {name: event[name] for name in _KEPT_FIELDS if name in event}
    kept["name"] = restored_name(kept["name"])
    kept["args"] = {name: arguments[name] for name in _KEPT_ARGUMENTS if name in arguments}
    return kept
