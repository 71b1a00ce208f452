"""A collector of another package: each range counts as one launch, timed with the CPU's clock."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pytest_nsight.collectors.base import RecordingOptions
from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.trace import OWN_DOMAIN, Launches, Ranges, Trace
from pytest_nsight.model.trace_devices import TraceDevice
from pytest_nsight.processes.child_process import ChildProcess, start
from pytest_nsight.protocol.job import WORKER_LOG

RECORD = "clock.jsonl"


class ClockCollector:
    """Starts workers as they are: they read the clock themselves."""

    name = "clock"
    title = "clock 1.0"
    environment: Mapping[str, str] = {"clock": "1.0"}
    is_shared = False
    times_cpu = True

    def start(self, worker: Sequence[str], folder: Path, cwd: Path, environ: Mapping[str, str]) -> ChildProcess:
        return start(worker, folder / WORKER_LOG, cwd, environ)

    def collect(self, folder: Path) -> Trace:
        trace = FACTORY.read_kept(folder)
        if trace is None:
            raise TraceError(f"{folder} holds no {RECORD}: no test got as far as measuring anything")
        return trace

    def explain_log(self, log: Path) -> str:
        return ""

    def tidy(self, folder: Path, *, keep: bool) -> None:
        if not keep:
            (folder / RECORD).unlink(missing_ok=True)


class ClockRecorder:
    """Writes a line for each range."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / RECORD
        self._open: list[tuple[int, str, int]] = []
        self._lines: list[str] = []

    def start(self) -> None:
        self._lines.clear()

    def stop(self) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(self._lines)

    def push(self, name: str, payload: int) -> None:
        self._open.append((time.perf_counter_ns(), name, payload))

    def pop(self) -> None:
        end_ns = time.perf_counter_ns()
        start_ns, name, payload = self._open.pop()
        line = {"start": start_ns, "end": end_ns, "name": name, "payload": payload, "pid": os.getpid()}
        self._lines.append(json.dumps(line) + "\n")


class ClockFactory:
    """What the entry point names."""

    def make_collector(self, options: RecordingOptions) -> ClockCollector:
        return ClockCollector()

    def make_recorder(self, folder: Path) -> ClockRecorder:
        return ClockRecorder(folder)

    def read_kept(self, folder: Path) -> Trace | None:
        if not (folder / RECORD).exists():
            return None
        with (folder / RECORD).open(encoding="utf-8") as file:
            return build_trace([json.loads(line) for line in file])


def build_trace(lines: Sequence[Mapping[str, Any]]) -> Trace:
    count = len(lines)
    starts, ends, pids = (np.array([line[name] for line in lines], np.int64) for name in ("start", "end", "pid"))
    strings = tuple(dict.fromkeys((OWN_DOMAIN, *(line["name"] for line in lines))))
    none = np.zeros(count, np.int64)
    return Trace(
        ranges=Ranges(
            start_ns=starts,
            end_ns=ends,
            name=np.array([strings.index(line["name"]) for line in lines], np.int32),
            domain=np.zeros(count, np.int32),
            payload=np.array([line["payload"] for line in lines], np.int64),
            process=pids,
            thread=none,
            is_open=np.zeros(count, np.bool_),
        ),
        launches=Launches(
            start_ns=starts,
            end_ns=ends,
            shape=np.zeros(count, np.int32),
            device=np.zeros(count, np.int32),
            stream=none,
            process=pids,
            correlation=none,
            bytes_moved=none,
            graph_node=none,
        ),
        shapes=(Shape(kind="operator", name="body", full_name="body"),),
        strings=strings,
        devices=(TraceDevice(None, 0, "", ""),),
        tool="clock 1.0",
    )


FACTORY = ClockFactory()
