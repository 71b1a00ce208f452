"""What a folder of baselines holds, case by case and save by save, and the removal of cases."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.baselines.atomic_files import explaining, refuse_broken_link, replace
from pytest_nsight.baselines.baseline_file import read_file
from pytest_nsight.baselines.encode import encode
from pytest_nsight.baselines.file_format import Runs
from pytest_nsight.baselines.folder_lock import locked
from pytest_nsight.baselines.store import file_name, load
from pytest_nsight.model.errors import BaselineError
from pytest_nsight.model.values import METRICS, RunSummary, Subject


@dataclass(frozen=True, slots=True)
class StoredSave:
    """The runs of one subject that one session stored on one board.

    Attributes:
        session: id of the session.
        recorded: UTC time of the session, ISO 8601; "" if unknown.
        commit: git commit of the tested tree, "" if unknown; "+" at its end if it had changes.
        board: the board's UUID, or the CPU's name.
        reason: why the runs became a baseline, "" for no reason.
        measured: the runs, oldest first.
        metric: the duration that all of them have, "" for none.
    """

    session: str
    recorded: str
    commit: str
    board: str
    reason: str
    measured: tuple[RunSummary, ...]
    metric: str

    @property
    def runs(self) -> int:
        """How many runs are stored."""
        return len(self.measured)


@dataclass(frozen=True, slots=True)
class StoredCase:
    """One subject in the baselines of one GPU model.

    Attributes:
        model: name of the model's folder.
        subject: the case, or a part of it.
        saves: oldest first.
    """

    model: str
    subject: Subject
    saves: tuple[StoredSave, ...]

    @property
    def runs(self) -> int:
        """How many runs are stored."""
        return sum(save.runs for save in self.saves)


def list_models(folder: Path) -> tuple[str, ...]:
    """The GPU models for which a folder holds baselines, sorted.

    Raises:
        BaselineError: there is no such folder, or it cannot be read.
    """
    with explaining("read", folder):
        refuse_broken_link(folder)
        models = tuple(sorted(home.name for home in folder.iterdir() if home.is_dir() and any(home.glob("*.json"))))
    if not models:
        raise BaselineError(f"{folder} holds no baselines; store some with pytest --nsight --nsight-save")
    return models


def list_cases(folder: Path, model: str) -> tuple[StoredCase, ...]:
    """What is stored for a GPU model, sorted by subject; the canaries come first or last, as their name sorts.

    Raises:
        BaselineError: a file is damaged, of a newer format, or cannot be read.
    """
    stored = load(folder, model).runs
    return tuple(StoredCase(model, subject, list_saves(stored[subject])) for subject in sorted(stored))


def list_saves(runs: Sequence[RunSummary]) -> tuple[StoredSave, ...]:
    """The stored runs of one subject, put together by session, board and reason.

    Args:
        runs: oldest first.
    """
    groups: dict[tuple[str, str, str], list[RunSummary]] = {}
    for run in runs:
        groups.setdefault((run.session, run.board, run.reason), []).append(run)
    return tuple(map(_describe_save, groups.values()))


def _describe_save(runs: Sequence[RunSummary]) -> StoredSave:
    newest = runs[-1]
    metric = next((name for name in METRICS if all(run.rounds.get(name) for run in runs)), "")
    return StoredSave(
        session=newest.session,
        recorded=newest.recorded,
        commit=newest.commit,
        board=newest.board,
        reason=newest.reason,
        measured=tuple(runs),
        metric=metric,
    )


def remove_cases(folder: Path, model: str, cases: Collection[str]) -> tuple[Path, ...]:
    """Removes cases with all their parts; a file that holds no other case is deleted.

    Args:
        folder: the folder of all baselines.
        model: name of the model's folder.
        cases: node ids.

    Returns:
        The files that were changed or deleted, sorted.

    Raises:
        BaselineError: a file is damaged or cannot be written, or another process holds the lock.
    """
    home = folder / model
    with locked(home):
        paths = [path for path in sorted({home / file_name(case) for case in cases}) if path.exists()]
        return tuple(path for path in paths if _remove_from(path, read_file(path), cases))


def _remove_from(path: Path, stored: Runs, cases: Collection[str]) -> bool:
    kept = {subject: runs for subject, runs in stored.items() if subject.case not in cases}
    if len(kept) == len(stored):
        return False
    if kept:
        replace(path, encode(kept))
    else:
        with explaining("delete", path):
            path.unlink()
    return True


def select_cases(cases: Iterable[StoredCase], words: Sequence[str]) -> tuple[StoredCase, ...]:
    """The cases that hold every word, see `Subject.holds`."""
    return tuple(case for case in cases if case.subject.holds(words))
