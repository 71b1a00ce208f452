"""The command `pytest-nsight show`: what a recording spends its time on, as text, JSON or CSV.

Runs in a process of its own.
"""

from __future__ import annotations

from pathlib import Path

from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.show.page import View, render
from pytest_nsight.show.records import write_csv, write_json

__all__ = ["View", "render", "show", "write_csv", "write_json"]


def show(path: Path, width: int = 120, view: View | None = None) -> str:
    """The page of a recording, without a newline at its end.

    Args:
        path: an export, packed or not, a report, a PyTorch profiler trace, or the folder of a recorded run.
        width: columns of the terminal.
        view: what to show; everything where None.

    Raises:
        NsightError: the recording cannot be read, or no range has the wanted name and domain.
    """
    return render(load_trace(path), width, view or View())
