"""The line that shows live progress, on a terminal only."""

from __future__ import annotations

import time
from typing import Any

from pytest_nsight.launch.tail import Progress
from pytest_nsight.model import Subject


class ProgressLine:
    """Rewrites one line of pytest's terminal: run, case, time left."""

    def __init__(self, reporter: Any) -> None:
        """Takes pytest's terminal reporter, or None where there is none."""
        self._reporter = reporter if reporter is not None and reporter.isatty else None
        self._seen: Progress | None = None
        self._began: dict[str, float] = {}
        self._is_shown = False

    def show(self, progress: Progress) -> None:
        """Shows a new position; the same one twice is written once."""
        began = self._began.setdefault(progress.run, time.monotonic())
        if self._reporter is None or progress == self._seen:
            return
        self._seen = progress
        self._is_shown = True
        text = line(progress, time.monotonic() - began)
        self._reporter.rewrite(text[: self._reporter._tw.fullwidth - 1], erase=True)  # noqa: SLF001

    def clear(self) -> None:
        """Removes the line."""
        if self._reporter is not None and self._is_shown:
            self._reporter.rewrite("", erase=True)
            self._is_shown = False


def line(progress: Progress, elapsed_s: float) -> str:
    """What the line says, for a process that began `elapsed_s` ago."""
    run = int(progress.run.rpartition("/")[2])
    running = [Subject(case).label for case in (progress.case, *progress.beside) if case]
    what = " | ".join(running) or ("reading" if progress.done else "starting")
    left = ""
    if progress.done:
        seconds = elapsed_s / progress.done * (progress.total - progress.done)
        left = f", about {seconds:.0f} s left"
    return f"nsight: run {run}, case {min(progress.done + 1, progress.total)}/{progress.total}: {what}{left}"
