"""What a path given to `compare` holds: runs of cases, or a trace."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_nsight.baselines.baseline_file import read_file
from pytest_nsight.baselines.file_format import begins_as_baselines
from pytest_nsight.collectors.open_recording import KINDS, load_trace
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.units import count, name_some
from pytest_nsight.model.values import DEFAULT_BAND, Policy, RunSummary, Subject
from pytest_nsight.processes.regular_files import check_content
from pytest_nsight.protocol.manifest import FILE_NAME as MANIFEST
from pytest_nsight.report import session_file
from pytest_nsight.report.verdict_text import gated_metric

_UTF_8_MARK = b"\xef\xbb\xbf"
_HEAD = 1 << 16
"""Bytes in which a JSON file shows what it is."""

_KINDS = f"a session's folder or its session.json, a baseline file or the folder of one GPU model, or {KINDS}"
_RECORDINGS = (".sqlite", ".sqlite.xz", ".nsys-rep", ".qdrep", ".json.gz")
_CONTENTS = (b"SQLite format 3", b"{", b"[", b"\x1f\x8b", b"\xfd7zXZ\x00")
"""How recordings begin whose name says nothing."""


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
    if path.exists():
        head = _read_head(path)
        if path.name == session_file.FILE_NAME:
            return _load_session(path)
        if path.suffix == ".json" and begins_as_baselines(head):
            return _load_baselines(path, [path])
        _refuse_other(path, head)
    return TraceSource(str(path), load_trace(path))


def _refuse_other(path: Path, head: bytes) -> None:
    """Refuses a file whose name and content are not those of a recording."""
    if not head:
        raise UsageError(f"{path} is empty; give {_KINDS}")
    is_json = path.suffix == ".json"
    if is_json and not _is_profiler_trace(head):
        raise UsageError(f"{path} is neither a baseline file nor a trace of the PyTorch profiler; give {_KINDS}")
    if not is_json and not path.name.lower().endswith(_RECORDINGS) and not head.startswith(_CONTENTS):
        raise UsageError(f"{path} is no recording: it begins with {head[:16]!r}; give {_KINDS}")


def _load_folder(path: Path) -> RunSource | TraceSource:
    if (path / session_file.FILE_NAME).exists():
        return _load_session(path)
    # A run's folder holds JSON files, too.
    if (path / MANIFEST).exists():
        return TraceSource(str(path), load_trace(path))
    if files := _find_baselines(path):
        return _load_baselines(path, files)
    if traces := sorted(file.name for file in path.iterdir() if _is_recording(file)):
        names = name_some(traces)
        raise UsageError(f"{path} is a folder with {count(len(traces), 'recording')}; give one of them: {names}")
    models = {
        folder: files
        for folder in sorted(path.iterdir())
        if folder.is_dir() and not (folder / MANIFEST).exists() and (files := _find_baselines(folder))
    }
    if len(models) == 1:
        ((model, files),) = models.items()
        return _load_baselines(model, files)
    if models:
        names = name_some(map(str, models))
        raise UsageError(f"{path} holds baselines of {len(models)} models; give the folder of one: {names}")
    for folder in (path, *sorted(path.iterdir())):
        if not (folder / MANIFEST).exists():
            _refuse_damaged(folder.glob("*.json"))
    return TraceSource(str(path), load_trace(path))


def _refuse_damaged(files: Iterable[Path]) -> None:
    """Names a file that is no JSON at all: nothing but a damaged baseline file is likely to be one.

    Raises:
        BaselineError: there is such a file.
    """
    for file in sorted(files):
        if not file.is_file() or _is_profiler_trace(_read_head(file)):
            continue
        try:
            json.loads(file.read_bytes())
        except (ValueError, RecursionError):
            read_file(file)


def _find_baselines(folder: Path) -> list[Path]:
    """The JSON files of a folder of baselines; none where no file is one.

    Raises:
        BaselineError: some are baseline files, and another is damaged.
        UsageError: some are baseline files, and others are not.
    """
    files = sorted(folder.glob("*.json"))
    others = [file for file in files if file.is_file() and not begins_as_baselines(_read_head(file))]
    if len(others) == len(files):
        return []
    if others:
        _refuse_damaged(others)
        names = name_some(file.name for file in others)
        raise UsageError(
            f"{folder} holds baseline files, and others: {names}; give a folder of baseline files only"
        )
    return files


def _is_recording(path: Path) -> bool:
    """Whether a file of a folder looks like a recording, by its name or, of JSON, by its content."""
    if not path.is_file():
        return False
    if path.suffix == ".json":
        return _is_profiler_trace(_read_head(path))
    return path.name.lower().endswith(_RECORDINGS)


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


def _read_head(path: Path) -> bytes:
    """How a file begins, without the white space before it."""
    check_content(path)
    with path.open("rb") as file:
        return file.read(_HEAD).removeprefix(_UTF_8_MARK).lstrip()


def _is_profiler_trace(head: bytes) -> bool:
    """Whether a JSON file begins as the traces of the PyTorch profiler do, a list or an object with their keys."""
    keys = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"computeProperties"')
    return head.startswith(b"[") or (head.startswith(b"{") and any(key in head for key in keys))
