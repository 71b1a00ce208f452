"""Hardware counters that a save stored beside the baselines of a GPU model: one line a case, sorted, text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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


def store_counters(
    folder: Path, model: str, counters: Sequence[CaseCounters], outdated: Collection[str]
) -> frozenset[str]:
    """Adds counters in place of older ones of the same cases, and leaves out what is outdated.

    Args:
        folder: of all baselines.
        model: name of the GPU model's folder; made if missing, as long as there are counters.
        counters: of one session.
        outdated: cases whose stored runs are newer than their stored counters, or that no longer exist.

    Returns:
        Cases that have no counters any more.

    Raises:
        BaselineError: the file is damaged, or cannot be written, or another process holds the folder's lock.
    """
    home = folder / model
    if counters:
        with explaining("write", home):
            home.mkdir(parents=True, exist_ok=True)
    elif not (home / FILE_NAME).exists():
        return frozenset()
    with locked(home):
        known = load_counters(folder, model)
        kept = {case: one for case, one in known.items() if case not in outdated}
        kept |= {one.case: one for one in counters}
        if kept:
            replace_lines(home / FILE_NAME, [_CountersLine(_FORMAT, kept[case]) for case in sorted(kept)])
        else:
            with explaining("delete", home / FILE_NAME):
                (home / FILE_NAME).unlink(missing_ok=True)
    return frozenset(known.keys() - kept.keys())
