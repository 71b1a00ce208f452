"""Hardware counters that a save stored beside the baselines of a GPU model: one line a case, sorted, text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.baselines.atomic_files import explaining
from pytest_nsight.baselines.case_lines import read_lines, replace_lines
from pytest_nsight.baselines.folder_lock import locked
from pytest_nsight.model.kernel_counters import CaseCounters

FILE_NAME = "nsight_counters.jsonl"
"""In the folder of a GPU model. Not .json: that is a module's baseline."""

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class _CountersLine:
    """One line of the file.

    Attributes:
        format: version of it.
        counters: of one case.
    """

    format: int
    counters: CaseCounters


def load_counters(folder: Path, model: str) -> dict[str, CaseCounters]:
    """Case -> its stored counters; empty where none were stored.

    Args:
        folder: of all baselines.
        model: name of the GPU model's folder.

    Raises:
        BaselineError: the file is damaged, or a newer version has written it.
    """
    lines = read_lines(folder / model / FILE_NAME, _CountersLine, _FORMAT)
    return {line.counters.case: line.counters for line in lines}


def save_counters(folder: Path, model: str, counters: Sequence[CaseCounters]) -> Path:
    """Adds the counters of some cases to those that are stored, in place of their older ones.

    Args:
        folder: of all baselines.
        model: name of the GPU model's folder.
        counters: of the saved cases.

    Returns:
        The file.

    Raises:
        BaselineError: it is damaged, or cannot be written, or another process holds the folder's lock.
    """
    home = folder / model
    with explaining("write", home):
        home.mkdir(parents=True, exist_ok=True)
    with locked(home):
        known = load_counters(folder, model) | {one.case: one for one in counters}
        replace_lines(home / FILE_NAME, [_CountersLine(_FORMAT, known[case]) for case in sorted(known)])
    return home / FILE_NAME
