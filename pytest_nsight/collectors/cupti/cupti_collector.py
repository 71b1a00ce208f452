"""The collector through CUPTI's activity records, inside the worker: no program beside it, no export."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pytest_nsight.collectors.base import Recorder, RecordingOptions
from pytest_nsight.collectors.cupti.availability import CuptiInstallation, find_working, variables_of
from pytest_nsight.collectors.cupti.packed_trace_reader import read_trace
from pytest_nsight.collectors.kept_files import KeptFiles
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.trace import Calls, Launches, Ranges, Table, Trace
from pytest_nsight.processes.child_process import ChildProcess, start
from pytest_nsight.processes.machine import gpu_names
from pytest_nsight.protocol.job import WORKER_LOG
from pytest_nsight.recorders.cupti.cupti_recorder import CuptiRecorder
from pytest_nsight.recorders.cupti.library import CuptiError


class CuptiCollector:
    """Starts workers as they are: they record themselves."""

    name = "cupti"
    is_shared = False
    times_cpu = False

    def __init__(self, installation: CuptiInstallation) -> None:
        self._installation = installation
        self.title = f"cupti {installation.version} ({installation.path})"
        self.environment: Mapping[str, str] = {"cupti": str(installation.version)}

    def start(self, worker: Sequence[str], folder: Path, cwd: Path, environ: Mapping[str, str]) -> ChildProcess:
        """Starts the worker, with the library that was tried."""
        return start(worker, folder / WORKER_LOG, cwd, {**environ, **variables_of(self._installation)})

    def collect(self, folder: Path) -> Trace:
        """Reads what the worker wrote.

        Raises:
            TraceError: it wrote nothing, or something else.
        """
        return _KEPT.collect(folder)

    def explain_log(self, log: Path) -> str:  # noqa: ARG002 - nothing else writes there
        """Nothing: the output is the worker's own."""
        return ""

    def tidy(self, folder: Path, *, keep: bool) -> None:
        """Removes the records unless they are to be kept; they hold nothing secret."""
        if not keep:
            _KEPT.remove(folder)


def join_cases(traces: Sequence[Trace]) -> Trace:
    """One trace of the cases of a process. A damaged trace contributes only its damage sentence.

    Args:
        traces: at least one, of one process.
    """
    whole = [trace for trace in traces if not trace.damage]
    strings: dict[str, int] = {}
    shapes: dict[Shape, int] = {}
    ranges, calls, launches = [], [], []
    for trace in whole:
        text = np.array([strings.setdefault(one, len(strings)) for one in trace.strings], np.int32)
        shape = np.array([shapes.setdefault(one, len(shapes)) for one in trace.shapes], np.int32)
        ranges.append(
            dataclasses.replace(trace.ranges, name=text[trace.ranges.name], domain=text[trace.ranges.domain])
        )
        calls.append(dataclasses.replace(trace.calls, name=text[trace.calls.name]))
        launches.append(dataclasses.replace(trace.launches, shape=shape[trace.launches.shape]))
    damages = tuple(dict.fromkeys(trace.damage for trace in traces if trace.damage))
    return dataclasses.replace(
        traces[-1],
        ranges=Ranges(**_join(Ranges, ranges)),
        calls=Calls(**_join(Calls, calls)),
        launches=Launches(**_join(Launches, launches)),
        shapes=tuple(shapes),
        strings=tuple(strings),
        damage="; ".join(damages),
        notes=damages,
    )


def _join(table: type[Table], parts: Sequence[Table]) -> dict[str, Any]:
    empty = table.empty()
    return {
        name: np.concatenate([getattr(part, name) for part in (empty, *parts)]) for name in table.column_names()
    }


_KEPT = KeptFiles("cupti-*.gz", "CUPTI", lambda paths: join_cases([read_trace(path) for path in paths]))


class _CuptiFactory:
    """Makes what measures with CUPTI."""

    def make_collector(self, options: RecordingOptions) -> CuptiCollector:
        """The collector.

        Raises:
            CuptiError: there is no GPU or no CUPTI that works, or more is wanted than it records.
        """
        if not gpu_names():
            raise CuptiError("the collector cupti needs a CUDA device; see pytest-nsight doctor")
        for is_wanted, option in (
            (options.gpu_metrics, "--nsight-gpu-metrics"),
            (options.user_ranges, "--nsight-user-ranges"),
            (options.keep_report, "--nsight-keep-report"),
        ):
            if is_wanted:
                raise CuptiError(
                    f"{option} needs Nsight Systems, which the collector cupti does without; leave the option out, "
                    "or take --nsight-collector nsys"
                )
        return CuptiCollector(find_working())

    def make_recorder(self, folder: Path) -> Recorder:
        """The recorder, in the worker."""
        return CuptiRecorder(folder)

    def read_kept(self, folder: Path) -> Trace | None:
        """The trace in a run's folder; None if there is none.

        Raises:
            TraceError: it cannot be read.
        """
        return _KEPT.read(folder)


FACTORY = _CuptiFactory()
