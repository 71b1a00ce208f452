"""What a path given to `compare` holds: runs of cases, or a trace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_nsight.baselines.store import read_file
from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.units import name_some
from pytest_nsight.model.values import DEFAULT_BAND, Policy, RunSummary, Subject
from pytest_nsight.processes.regular_files import check_content
from pytest_nsight.protocol.manifest import FILE_NAME as MANIFEST
from pytest_nsight.report import session_file
from pytest_nsight.report.verdict_text import gated_metric

_HEAD = 1 << 16
"""Bytes in which a JSON file shows what it is."""

_KINDS = "a session's folder, a baseline file, or a recording"


@dataclass(frozen=True, slots=True)
class RunSource:
    """Runs of cases.

    Attributes:
        title: what it is called.
        runs: of each case and part.
        policies: by which metric and band a session judged a case; baselines do not hold them.
    """

    title: str
    runs: Mapping[Subject, tuple[RunSummary, ...]]
    policies: Mapping[Subject, Policy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TraceSource:
    """One trace.

    Attributes:
        title: what it is called.
        trace: as read.
    """

    title: str
    trace: Trace


def load_source(path: Path) -> RunSource | TraceSource:
    """Reads what a path holds.

    Args:
        path: a session's folder or its session.json, a baseline file or a folder of them, or a recording.

    Raises:
        UsageError: the path does not exist.
        NsightError: it cannot be read.
    """
    if path.is_dir():
        return _load_folder(path)
    if path.suffix == ".json" and path.exists():
        if path.name == session_file.FILE_NAME:
            return _load_session(path)
        head = _read_head(path)
        if not _is_profiler_trace(head):
            if head.startswith("{") and '"format"' not in head:
                raise UsageError(
                    f"{path} is neither a baseline file nor a trace of the PyTorch profiler; give {_KINDS}"
                )
            return _load_baselines(path, [path])
    return TraceSource(str(path), load_trace(path))


def _load_folder(path: Path) -> RunSource | TraceSource:
    if (path / session_file.FILE_NAME).exists():
        return _load_session(path)
    # A run's folder holds JSON files, too.
    if not (path / MANIFEST).exists():
        if files := sorted(path.glob("*.json")):
            return _load_baselines(path, files)
        models = sorted({file.parent for file in path.glob("*/*.json") if not (file.parent / MANIFEST).exists()})
        if len(models) == 1:
            return _load_baselines(models[0], sorted(models[0].glob("*.json")))
        if models:
            names = name_some(map(str, models))
            raise UsageError(f"{path} holds baselines of {len(models)} models; give the folder of one: {names}")
    return TraceSource(str(path), load_trace(path))


def _load_session(path: Path) -> RunSource:
    session = session_file.read_session(path)
    bands = {one.subject: one.comparison.band for one in session.verdicts if one.comparison is not None}
    policies = {
        one.subject: Policy(metric=gated_metric(one), band=bands.get(one.subject, DEFAULT_BAND))
        for one in session.verdicts
    }
    return _check(path, {subject: tuple(own) for subject, own in session.runs_by_subject.items()}, policies)


def _load_baselines(path: Path, files: list[Path]) -> RunSource:
    runs: dict[Subject, tuple[RunSummary, ...]] = {}
    for file in files:
        runs.update({subject: tuple(own) for subject, own in read_file(file).items()})
    return _check(path, runs)


def _check(
    path: Path, runs: Mapping[Subject, tuple[RunSummary, ...]], policies: Mapping[Subject, Policy] | None = None
) -> RunSource:
    if not runs:
        raise UsageError(f"{path} holds no runs; give another session, or a baseline file")
    return RunSource(str(path), runs, policies or {})


def _read_head(path: Path) -> str:
    """How a JSON file begins."""
    check_content(path)
    with path.open("rb") as file:
        return file.read(_HEAD).decode("utf-8", errors="replace").lstrip()


def _is_profiler_trace(head: str) -> bool:
    """Whether a JSON file begins as the traces of the PyTorch profiler do, a list or an object with their keys."""
    keys = ("traceEvents", "schemaVersion", "deviceProperties", "computeProperties")
    return head.startswith("[") or any(json.dumps(key) in head for key in keys)
