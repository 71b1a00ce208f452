"""Progress in pytest's output: a line that is rewritten on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pytest_nsight.controller.workers.manifest_tail import Progress
from pytest_nsight.model.values import Subject
from pytest_nsight.report.escapes import log_line, visible

LOG_EVERY_S = 10.0
"""Seconds between two lines of progress where the output is no terminal."""

_NAMED = 2
"""Cases that are named when processes measure side by side."""


class ProgressLine:
    """Run, case and time left in pytest's output: one line on a terminal, else a line every ten seconds."""

    def __init__(self, reporter: Any, clock: Callable[[], float] = time.monotonic) -> None:
        """Writes nothing yet.

        Args:
            reporter: pytest's terminal reporter, or None where there is none.
            clock: seconds since any moment.
        """
        self._reporter = reporter
        self._clock = clock
        self._written_s = clock()
        self._seen: Progress | None = None
        self._done: dict[str, int] = {}
        self._began: dict[str, float] = {}
        self._is_shown = False

    def show(self, progress: Progress) -> None:
        """Shows a new position; the same one twice is written once."""
        now_s = self._clock()
        has_begun = bool(progress.case or progress.done)
        # The imports before the first case say nothing of how long a case takes.
        began_s = self._began.setdefault(progress.run, now_s) if has_begun else now_s
        if progress.done < self._done.get(progress.run, 0):
            # An identity pass repeats cases in further processes.
            began_s = self._began[progress.run] = now_s
        self._done[progress.run] = progress.done
        if self._reporter is None or progress == self._seen:
            return
        text = line(progress, now_s - began_s)
        if not self._reporter.isatty:
            if now_s - self._written_s >= LOG_EVERY_S and self._reporter.verbosity >= 0:
                self._seen, self._written_s = progress, now_s
                self._reporter.write_line(log_line(text))
            return
        self._seen = progress
        self._is_shown = True
        self._reporter.rewrite(text[: self._reporter._tw.fullwidth - 1], erase=True)  # noqa: SLF001

    def clear(self) -> None:
        """Removes the line."""
        if self._reporter is not None and self._is_shown:
            self._reporter.rewrite("", erase=True)
            self._is_shown = False


def line(progress: Progress, elapsed_s: float) -> str:
    """The text of the line, for a process whose first case began `elapsed_s` ago."""
    number = progress.run.rpartition("/")[2]
    run = f"run {int(number)}" if number.isdecimal() else number
    running = [Subject(case).label for case in (progress.case, *progress.beside) if case]
    what = visible(" | ".join(running[:_NAMED])) or ("reading" if progress.done else "starting")
    if len(running) > _NAMED:
        what += f" and {len(running) - _NAMED} more"
    left = ""
    if 0 < progress.done < progress.total:
        seconds = elapsed_s / progress.done * (progress.total - progress.done)
        # How many runs follow is known only when their cases are judged.
        left = f", about {seconds:.0f} s left of this run"
    return f"nsight: {run}, case {min(progress.done + 1, progress.total)}/{progress.total}: {what}{left}"
