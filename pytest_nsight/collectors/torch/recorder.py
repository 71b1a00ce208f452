"""Records a case with torch.profiler, inside the worker, and writes what a reader needs of it."""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from pytest_nsight.collectors.torch.event_checks import PREFIX

# What may stay as it is in a name that torch writes between quotes without a look at it.
_HARMLESS = " ()*+,-./:;<=>[]_|~"
# A name in what torch writes: each on a line of its own, its quotes and backslashes as they are.
_WRITTEN_NAME = re.compile(r'^(\s*"name": ")(.*?)(",?)$', re.MULTILINE)

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
            record = parse_written(path.read_text(encoding="utf-8", errors="replace"))
        self._profiler = None
        self._written += 1
        with gzip.open(self._folder / f"trace-{self._written:04}.json.gz", "wt", encoding="utf-8") as file:
            json.dump([_kept(event) for event in record["traceEvents"] if _is_kept(event)], file)

    def push(self, name: str, payload: int) -> None:
        """Opens a range."""
        import torch  # noqa: PLC0415

        opened = torch.profiler.record_function(
            f"{PREFIX}{payload}:{quote(name, _HARMLESS, errors='surrogatepass')}"
        )
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


def parse_written(text: str) -> Mapping[str, Any]:
    """What torch wrote as JSON, which it is not where a name of the program's own holds a quote or a backslash.

    Args:
        text: the file, a value on each line.

    Raises:
        ValueError: it is no JSON for another reason.
    """
    try:
        record = json.loads(text, strict=False)
    except ValueError:
        record = json.loads(_WRITTEN_NAME.sub(_escape, text), strict=False)
    if not isinstance(record, dict) or not isinstance(record.get("traceEvents"), list):
        raise ValueError("it holds no list of events")  # noqa: TRY004 - a bad file
    return record


def _escape(written: re.Match[str]) -> str:
    before, name, after = written.groups()
    return f"{before}{json.dumps(name)[1:-1]}{after}"


def _is_kept(event: Mapping[str, Any]) -> bool:
    return event.get("ph") == "X" and event.get("cat") in _KEPT_CATEGORIES


def _kept(event: Mapping[str, Any]) -> dict[str, Any]:
    """What a reader needs of an event, and nothing else that says whose machine it is."""
    arguments = event.get("args", {})
    kept = {name: event[name] for name in _KEPT_FIELDS if name in event}
    if kept["name"].startswith(PREFIX):
        kept["name"] = unquote(kept["name"], errors="surrogatepass")
    kept["args"] = {name: arguments[name] for name in _KEPT_ARGUMENTS if name in arguments}
    return kept
