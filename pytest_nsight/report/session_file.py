"""A finished session as a file that loses nothing, read back for `pytest-nsight report`; several joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pytest_nsight.model.errors import RecordingError
from pytest_nsight.model.values import RunSummary, Subject
from pytest_nsight.model.verdicts import SessionResult, Verdict
from pytest_nsight.processes.regular_files import check_regular
from pytest_nsight.protocol.json_files import read_json_file, restored, write_json

FILE_NAME = "session.json"
"""Its name in a session's folder."""

_FORMAT = 1
_HEAD_BYTES = 64

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class SessionFile:
    """The file's content.

    Attributes:
        format: version of it.
        result: the session.
    """

    format: int
    result: SessionResult


def render(result: SessionResult) -> str:
    """The session as JSON, one line, newline at its end."""
    return write_json(SessionFile(_FORMAT, result))


def is_session(path: Path) -> bool:
    """Whether a file begins as `render` begins it; its name says nothing."""
    check_regular(path, follows_links=True)
    with path.open("rb") as file:
        return b'"format"' in file.read(_HEAD_BYTES)


def read_session(path: Path) -> SessionResult:
    """The session that a folder or a file holds.

    Raises:
        RecordingError: there is none, it cannot be read, or a newer version has written it.
    """
    file = path / FILE_NAME if path.is_dir() else path
    if not file.exists():
        raise RecordingError(f"{path} holds no {FILE_NAME}; give a session's folder below .nsight/")
    try:
        found = read_json_file(SessionFile, file)
    except RecordingError:
        if path.is_dir():
            raise
        wanted = "give a session's folder below .nsight/"
        raise RecordingError(f"{path} is no {FILE_NAME} of a session; {wanted}") from None
    if found.format != _FORMAT:
        raise RecordingError(
            f"{file} has format {found.format}, {_FORMAT} is known; use the pytest-nsight that wrote it"
        )
    return restored(found.result)


def join_sessions(sessions: Sequence[SessionResult]) -> SessionResult:
    """One session with the cases of all: parts of a suite on several machines, or a suite on several days.

    A case that several sessions have judged keeps the verdict and the runs of the latest; the runs of the others
    stand beside its baseline.

    Args:
        sessions: at least one.
    """
    if len(sessions) == 1:
        return sessions[0]
    ordered = sorted(sessions, key=lambda session: session.recorded)
    latest: dict[Subject, tuple[Verdict, SessionResult]] = {}
    for session in ordered:
        for verdict in session.verdicts:
            latest[verdict.subject] = (verdict, session)

    def is_latest(run: RunSummary, session: SessionResult) -> bool:
        return run.subject in latest and latest[run.subject][1] is session

    runs = [(run, is_latest(run, session)) for session in ordered for run in session.runs]
    stored = [run for session in ordered for run in session.baseline_runs if is_latest(run, session)]
    return SessionResult(
        session=" + ".join(session.session for session in ordered),
        recorded=ordered[-1].recorded,
        collector=_joined(session.collector for session in ordered),
        environment=_joined_values([session.environment for session in ordered]),
        verdicts=tuple(verdict for verdict, _ in latest.values()),
        runs=tuple(run for run, is_new in runs if is_new),
        strict=any(session.strict for session in ordered),
        saved=tuple(dict.fromkeys(path for session in ordered for path in session.saved)),
        notes=tuple(dict.fromkeys(note for session in ordered for note in session.notes)),
        canaries=tuple(run for session in ordered for run in session.canaries),
        seeds=_united(session.seeds for session in ordered),
        limits=_united(session.limits for session in ordered),
        datasheet=ordered[-1].datasheet,
        partners=_united(session.partners for session in ordered),
        baseline_runs=_without_repeats([*stored, *(run for run, is_new in runs if not is_new)]),
        identities=_united(session.identities for session in ordered),
        lines=_united(session.lines for session in ordered),
        timelines=_united(session.timelines for session in ordered),
        metrics=_united(session.metrics for session in ordered),
        script=_common([session.script for session in ordered]),
        baselines_option=_common([session.baselines_option for session in ordered]),
    )


def _without_repeats(runs: Iterable[RunSummary]) -> tuple[RunSummary, ...]:
    """A saved run is both an older session's and the baseline's."""
    return tuple({(run.subject, run.run): run for run in runs}.values())


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(texts))


def _common(texts: Sequence[str]) -> str:
    """The text that all share, else "": no single command repeats them."""
    return texts[0] if len(set(texts)) == 1 else ""


def _joined_values(mappings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    names = dict.fromkeys(name for mapping in mappings for name in mapping)
    return {name: _joined(mapping[name] for mapping in mappings if name in mapping) for name in names}


def _united(mappings: Iterable[Mapping[str, _Value]]) -> dict[str, _Value]:
    return {name: value for mapping in mappings for name, value in mapping.items()}
