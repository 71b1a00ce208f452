"""Which collectors there are, which one works here, and which one kept a recorded trace.

Both processes look collectors up by name: the controller for its collector, a worker for its recorder. Modules of
collectors are imported only when one is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from pytest_nsight.collectors.base import Collector, CollectorFactory, Identifier, RecordingOptions
from pytest_nsight.model.errors import CollectorError, NsysError, RecordingError
from pytest_nsight.model.trace import Trace
from pytest_nsight.processes.machine import gpu_names

GROUP = "pytest_nsight.collectors"
"""Entry point group in which packages name collectors of their own."""

AUTO = "auto"
"""The name that stands for the best collector that works."""

_BUILT_IN = (
    EntryPoint("nsys", "pytest_nsight.collectors.nsys.nsys_collector:FACTORY", GROUP),
    EntryPoint("cupti", "pytest_nsight.collectors.cupti.cupti_collector:FACTORY", GROUP),
    EntryPoint("torch", "pytest_nsight.collectors.torch.torch_collector:FACTORY", GROUP),
)
_METHODS = ("make_collector", "make_recorder", "read_kept")


def collector_names() -> tuple[str, ...]:
    """What `--nsight-collector` takes: "auto", the package's own collectors, and those of installed packages."""
    return tuple(dict.fromkeys((AUTO, *(entry.name for entry in _entries()))))


def choose(wanted: str, options: RecordingOptions, *, strict: bool) -> tuple[Collector, tuple[str, ...]]:
    """Picks the collector.

    Args:
        wanted: one of `collector_names()`.
        options: what to record.
        strict: whether a fallback is refused.

    Returns:
        The collector, and sentences to show the user.

    Raises:
        CollectorError: the wanted one does not work here, none does, or --nsight-strict forbids the one that does.
    """
    if wanted != AUTO:
        return _make(wanted, options), _warn_of_no_gpu(wanted)
    if not gpu_names():
        obstacle = "no CUDA device here, so CPU operators are measured instead of kernels"
        _refuse_fallback(obstacle, "torch", strict=strict)
        return _make("torch", replace(options, gpu_metrics=False)), (obstacle, *_warn_of_no_metrics(options))
    try:
        return _make("nsys", options), ()
    except NsysError as error:
        reason = str(error)
    obstacle = f"CUPTI in the measuring process instead of Nsight Systems: {reason}"
    _refuse_fallback(obstacle, "cupti", strict=strict)
    try:
        return _make("cupti", options), (obstacle,)
    except CollectorError as error:
        obstacle = f"torch.profiler instead of Nsight Systems and of CUPTI: {reason}; {error}"
    return _make("torch", replace(options, gpu_metrics=False)), (obstacle,)


def _warn_of_no_metrics(options: RecordingOptions) -> tuple[str, ...]:
    return ("--nsight-gpu-metrics: without a CUDA device no counters are sampled",) if options.gpu_metrics else ()


def _warn_of_no_gpu(wanted: str) -> tuple[str, ...]:
    """The note on nsys without a GPU: it records NVTX ranges but no kernels, so no case is judged."""
    if wanted != "nsys" or gpu_names():
        return ()
    note = "no CUDA device here: nsys records no kernels, so no case can be measured"
    return (f"{note}; without --nsight-collector nsys CPU operators are measured",)


def _refuse_fallback(obstacle: str, name: str, *, strict: bool) -> None:
    if strict:
        remedy = f"to accept that, give --nsight-collector {name}"
        raise CollectorError(f"--nsight-strict refuses a fallback collector: {obstacle}; {remedy}")


def find_factory(name: str) -> CollectorFactory:
    """The factory of a collector.

    Args:
        name: of the collector, not "auto".

    Raises:
        CollectorError: there is none of this name, there are several, or it cannot be loaded.
    """
    entries = [entry for entry in _entries() if entry.name == name]
    if not entries:
        raise CollectorError(
            f"there is no collector {name!r}; choose one of {', '.join(collector_names())}, or install the package "
            "that brings it"
        )
    if len(entries) > 1 or name == AUTO:
        places = " and ".join(entry.value for entry in entries)
        raise CollectorError(f"several collectors are called {name!r} ({places}); uninstall one package")
    (entry,) = entries
    try:
        factory = entry.load()
    except Exception as error:
        raise CollectorError(
            f"the collector {name!r} cannot be loaded from {entry.value} ({type(error).__name__}: {error}); "
            "update or uninstall the package that brings it"
        ) from error
    missing = [method for method in _METHODS if not callable(getattr(factory, method, None))]
    if missing:
        raise CollectorError(
            f"the collector {name!r} ({entry.value}) has no {' and no '.join(missing)}; see CollectorFactory in "
            "pytest_nsight/collectors/base.py"
        )
    return cast("CollectorFactory", factory)


def read_kept_trace(folder: Path) -> Trace:
    """Reads the trace that a collector kept in a run's folder.

    Args:
        folder: of the run; whichever collector kept a trace there reads it.

    Raises:
        RecordingError: none was kept.
        CollectorError: it cannot be read.
    """
    for name in dict.fromkeys(entry.name for entry in _entries()):
        trace = find_factory(name).read_kept(folder)
        if trace is not None:
            return trace
    raise RecordingError(f"{folder} holds no trace; record the session with --nsight-keep")


def find_identifier_variables() -> Mapping[str, str]:
    """Environment variables of a worker that identifies launches.

    Raises:
        CollectorError: nothing here can; the message says why.
    """
    from pytest_nsight.collectors.cupti.availability import find_working, variables_of  # noqa: PLC0415 - see above

    return variables_of(find_working())


def make_identifier() -> Identifier:
    """What says what launches are, in a worker that has not used the device yet.

    Raises:
        CollectorError: nothing here can; the message says why.
    """
    from pytest_nsight.recorders.launch_identity.identity_recorder import make_identity_recorder  # noqa: PLC0415 - see above

    return make_identity_recorder()


def _entries() -> tuple[EntryPoint, ...]:
    """The package's own first; an installed package that is found twice on sys.path counts once."""
    found = {(entry.name, entry.value): entry for entry in (*_BUILT_IN, *entry_points(group=GROUP))}
    return tuple(found.values())


def _make(name: str, options: RecordingOptions) -> Collector:
    collector = find_factory(name).make_collector(options)
    if collector.name != name:
        # The worker looks its recorder up by this name.
        raise CollectorError(
            f"the collector {name!r} calls itself {collector.name!r}; its entry point and its name must be the same"
        )
    return collector
