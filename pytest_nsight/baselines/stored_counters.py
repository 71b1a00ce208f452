"""Hardware counters that a save stored beside the baselines of a GPU model: one line a case, sorted, text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.baselines.case_lines import read_lines, replace_lines
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


def load_counters(folder: Path, slug: str) -> dict[str, CaseCounters]:
    """Case -> its stored counters; empty where none were stored.

    Args:
        folder: of all baselines.
        slug: name of the GPU model's folder.

    Raises:
        BaselineError: the file is damaged, or a newer version has written it.
    """
    lines = read_lines(folder / slug / FILE_NAME, _CountersLine, _FORMAT)
    return {line.counters.case: line.counters for line in lines}


def save_counters(folder: Path, slug: str, counters: Sequence[CaseCounters]) -> Path:
    """Adds the counters of some cases to those that are stored, in place of their older ones.

    Args:
        folder: of all baselines.
        slug: name of the GPU model's folder.
        counters: of the saved cases.

    Returns:
        The file.

    Raises:
        BaselineError: it is damaged, or cannot be written.
    """
    known: Mapping[str, CaseCounters] = {
        **load_counters(folder, slug),
        **{one.case: one for one in counters},
    }
    path = folder / slug / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_lines(path, [_CountersLine(_FORMAT, known[case]) for case in sorted(known)])
    return path
