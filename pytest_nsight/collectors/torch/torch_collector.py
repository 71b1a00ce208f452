"""The collector for machines without Nsight Systems or without a GPU: torch.profiler inside the worker.

Kernels come from CUPTI where there is CUDA; elsewhere the outermost operators take their place.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_nsight.collectors.base import Recorder, RecordingOptions
from pytest_nsight.collectors.kept_files import KeptFiles, read_case
from pytest_nsight.collectors.torch.event_checks import Event, check_events
from pytest_nsight.collectors.torch.events import build_trace
from pytest_nsight.model.errors import CollectorError, TraceError
from pytest_nsight.model.trace import Trace
from pytest_nsight.processes.child_process import ChildProcess, start
from pytest_nsight.processes.machine import gpu_names
from pytest_nsight.protocol.job import WORKER_LOG
from pytest_nsight.recorders.torch.torch_recorder import TorchRecorder


class TorchCollector:
    """Starts workers as they are: they profile themselves."""

    name = "torch"
    is_shared = False
    environment: Mapping[str, str] = {}

    def __init__(self, title: str, *, times_cpu: bool) -> None:
        self.title = title
        self.times_cpu = times_cpu

    def start(self, worker: Sequence[str], folder: Path, cwd: Path, environ: Mapping[str, str]) -> ChildProcess:
        """Starts the worker on its own: it profiles itself."""
        return start(worker, folder / WORKER_LOG, cwd, environ)

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
        """Removes the traces unless they are to be kept; they hold nothing secret."""
        if not keep:
            _KEPT.remove(folder)


def _load(path: Path) -> list[Event]:
    try:
        events = json.loads(read_case(path))
        check_events(events)
    except (ValueError, RecursionError, MemoryError) as error:
        raise TraceError(f"{path} is no trace of torch.profiler ({error}); record the session again") from None
    kept: list[Event] = events
    return kept


_KEPT = KeptFiles("trace-*.json.gz", "torch.profiler", lambda paths: build_trace([_load(path) for path in paths]))


class _TorchFactory:
    """Makes what measures with torch.profiler."""

    def make_collector(self, options: RecordingOptions) -> TorchCollector:
        """The collector; it records all ranges.

        Raises:
            CollectorError: there is no torch, or it cannot do what is asked for.
        """
        if options.gpu_metrics:
            raise CollectorError(
                "--nsight-gpu-metrics needs Nsight Systems, which the collector torch does without; leave the "
                "option out, or measure with --nsight-collector nsys"
            )
        if importlib.util.find_spec("torch") is None:
            raise CollectorError("the torch collector needs PyTorch: pip install torch")
        has_gpu = bool(gpu_names())
        launches = "CUDA kernels" if has_gpu else "CPU operators"
        return TorchCollector(f"torch ({launches} through torch.profiler)", times_cpu=not has_gpu)

    def make_recorder(self, folder: Path) -> Recorder:
        """The recorder, in the worker."""
        return TorchRecorder(folder)

    def read_kept(self, folder: Path) -> Trace | None:
        """The trace in a run's folder; None if there is none.

        Raises:
            TraceError: it cannot be read.
        """
        return _KEPT.read(folder)


FACTORY = _TorchFactory()
