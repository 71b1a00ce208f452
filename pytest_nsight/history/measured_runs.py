"""The runs of a history: of the baselines, of their older versions in git, and of the results of kept sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.baselines.baseline_file import read_file
from pytest_nsight.baselines.decode import decode
from pytest_nsight.baselines.file_format import Runs
from pytest_nsight.baselines.store import model_slug
from pytest_nsight.history.case_history import HistoryRun, PointSource
from pytest_nsight.history.git_history import GitHistory
from pytest_nsight.judge.environment_checks import is_disturbed
from pytest_nsight.judge.location import has_one_level, typical_ns
from pytest_nsight.model.errors import BaselineError, NsightError, UsageError
from pytest_nsight.model.units import count
from pytest_nsight.report.result_file import FILE_NAME, ResultEntry, read_result


@dataclass(frozen=True, slots=True)
class FoundRuns:
    """The runs that were found.

    Attributes:
        runs: in no order; one that is in several files is there several times.
        notes: sentences on what could not be read.
    """

    runs: tuple[HistoryRun, ...]
    notes: tuple[str, ...]


def find_runs(baselines: Path, sessions: Path, words: Sequence[str], metric: str) -> FoundRuns:
    """The runs of all cases whose ids hold every one of these words.

    Args:
        baselines: the folder of all baselines; its older versions are taken from git.
        sessions: the folder of sessions, `.nsight`.
        words: see `Subject.holds`.
        metric: the duration that is looked at.

    Raises:
        UsageError: there is no such folder, here or in git, and no session of such a case.
    """
    notes: list[str] = []
    git = GitHistory(baselines)
    if not baselines.exists() and next(git.list_versions(), None) is None:
        return _read_sessions_alone(baselines, sessions, words, metric)
    runs = [
        *_read_files(baselines, words, metric, notes),
        *_read_versions(baselines, git, words, metric, notes),
        *_read_sessions(sessions, words, metric, notes),
    ]
    return FoundRuns(tuple(runs), tuple(notes))


def _read_sessions_alone(baselines: Path, sessions: Path, words: Sequence[str], metric: str) -> FoundRuns:
    notes: list[str] = []
    runs = tuple(_read_sessions(sessions, words, metric, notes))
    missing = f"there is no folder {baselines}, and no version of it in git"
    if not runs:
        raise UsageError(
            "; ".join([missing, *notes, f"nor a session of such a case in {sessions}"])
            + ": name the folder of the baselines with --baselines, or save some with pytest --nsight --nsight-save"
        )
    return FoundRuns(runs, (*notes, f"{missing}, so only sessions of {sessions} are shown"))


def _read_files(folder: Path, words: Sequence[str], metric: str, notes: list[str]) -> Iterator[HistoryRun]:
    for path in sorted(folder.glob("*/*.json")):
        try:
            stored = read_file(path)
        except BaselineError as error:
            notes.append(str(error))
            continue
        yield from _stored_runs(path.parent.name, stored, words, metric)


def _read_versions(
    folder: Path, git: GitHistory, words: Sequence[str], metric: str, notes: list[str]
) -> Iterator[HistoryRun]:
    if git.why_none:
        notes.append(f"{git.why_none}; only the runs that {folder} holds now are shown")
        return
    if git.is_shallow:
        notes.append("this clone is shallow and lacks older baselines; get them with git fetch --unshallow")
    unreadable: list[str] = []
    # The slash before a part is not in the file.
    pieces = [piece for word in words for piece in word.split("/") if piece.isascii() and '"' not in piece]
    for version in git.list_versions():
        # Decoding takes much longer than this look, and node ids are ASCII in nearly all files.
        if not all(piece.encode() in version.content for piece in pieces):
            continue
        try:
            stored = decode(version.content.decode("utf-8"))
        except (BaselineError, UnicodeDecodeError) as error:
            unreadable.append(f"{version.path} ({version.blob[:7]}): {error}")
            continue
        yield from _stored_runs(version.path.parent.name, stored, words, metric)
    if unreadable:
        versions = count(len(unreadable), "older version")
        notes.append(f"{versions} of baselines cannot be read, the newest {unreadable[0]}")


def _stored_runs(model: str, stored: Runs, words: Sequence[str], metric: str) -> Iterator[HistoryRun]:
    for subject, runs in stored.items():
        if subject.is_canary or not subject.holds(words):
            continue
        for run in runs:
            if run.rounds.get(metric):
                yield HistoryRun(
                    model=model,
                    subject=subject,
                    run=run.run,
                    session=run.session,
                    board=run.board,
                    recorded=run.recorded,
                    commit=run.commit,
                    time_ns=typical_ns([run], metric),
                    source=PointSource.BASELINE,
                    remark=run.reason,
                    has_one_level=has_one_level(run, metric) and not is_disturbed(run),
                )


def _read_sessions(folder: Path, words: Sequence[str], metric: str, notes: list[str]) -> Iterator[HistoryRun]:
    for path in sorted(folder.glob(f"*/{FILE_NAME}")):
        try:
            result = read_result(path)
        except NsightError as error:
            notes.append(str(error))
            continue
        for entry in result.entries:
            if entry.subject.holds(words):
                yield from _session_runs(entry, path.parent.name, metric)


def _session_runs(entry: ResultEntry, session: str, metric: str) -> Iterator[HistoryRun]:
    for run in entry.runs:
        times_ns = run.times_ns or run.medians_ns
        if metric in times_ns:
            yield HistoryRun(
                model=model_slug(entry.environment.get("device", "")),
                subject=entry.subject,
                run=run.run,
                session=run.run.rpartition("/")[0] or session,
                board=run.board,
                recorded=run.recorded,
                commit=run.commit,
                time_ns=times_ns[metric],
                source=PointSource.SESSION,
                remark=entry.verdict,
                has_one_level=metric not in (run.without_level or ()),
            )
