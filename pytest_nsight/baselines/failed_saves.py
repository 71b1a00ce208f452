"""Cases that a save could not store, beside the baselines of a GPU model: the next check names them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.baselines.atomic_files import explaining
from pytest_nsight.baselines.case_lines import read_lines, replace_lines
from pytest_nsight.baselines.folder_lock import locked

FILE_NAME = "nsight_failed_saves.jsonl"
"""In the folder of a GPU model. Not .json: that is a module's baseline."""

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class FailedSave:
    """A case whose last save failed.

    Attributes:
        case: node id.
        recorded: UTC time of the session, ISO 8601.
        why: first line of the reason.
    """

    case: str
    recorded: str
    why: str

    @property
    def sentence(self) -> str:
        """When it failed, and why."""
        return f"its save of {self.recorded[:10]} failed ({self.why})"


@dataclass(frozen=True, slots=True)
class _FailedSaveLine:
    """One line of the file.

    Attributes:
        format: version of it.
        failed: of one case.
    """

    format: int
    failed: FailedSave


def load_failed_saves(folder: Path, model: str) -> dict[str, FailedSave]:
    """Case -> its failed save; empty where every case was stored.

    Args:
        folder: of all baselines.
        model: name of the GPU model's folder.

    Raises:
        BaselineError: the file is damaged, cannot be read, or a newer version has written it.
    """
    lines = read_lines(folder / model / FILE_NAME, _FailedSaveLine, _FORMAT)
    return {line.failed.case: line.failed for line in lines}


def store_failed_saves(folder: Path, model: str, failed: Sequence[FailedSave], settled: Collection[str]) -> None:
    """Adds failed saves in place of older ones of the same cases, and leaves out what is settled.

    Args:
        folder: of all baselines.
        model: name of the GPU model's folder; made if missing, as long as something failed.
        failed: of one session.
        settled: cases that are stored now, or no longer exist.

    Raises:
        BaselineError: the file is damaged, or cannot be written, or another process holds the folder's lock.
    """
    home = folder / model
    if failed:
        with explaining("write", home):
            home.mkdir(parents=True, exist_ok=True)
    if not failed and not (home / FILE_NAME).exists():
        return
    with locked(home):
        known = load_failed_saves(folder, model) | {one.case: one for one in failed}
        kept = [known[case] for case in sorted(known) if case not in settled]
        if kept:
            replace_lines(home / FILE_NAME, [_FailedSaveLine(_FORMAT, one) for one in kept])
        else:
            with explaining("delete", home / FILE_NAME):
                (home / FILE_NAME).unlink(missing_ok=True)
