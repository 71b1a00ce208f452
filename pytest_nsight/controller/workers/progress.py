"""Live progress: a line that is rewritten on a terminal, a line now and then in a log; and how it is read.

A worker writes its manifest while it measures; the tail follows that file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_nsight.model.identity import SHORT_OF_MEMORY
from pytest_nsight.model.values import Subject
from pytest_nsight.processes.process_tree import is_running
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


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a session stands.

    Attributes:
        run: id of the run.
        case: node id of the case that runs, "" before the first and after the last.
        done: cases of this process that are over.
        total: cases of this process.
        beside: node ids of the cases that other processes of the run are at.
    """

    run: str
    case: str
    done: int
    total: int
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LateImport:
    """A slow module that a case was the first of its process to import.

    Attributes:
        module: its name.
        case: node id.
    """

    module: str
    case: str


def _read_event(line: bytes) -> Mapping[str, Any]:
    """The event of a manifest's line; an empty one if the line is damaged, which read_manifest reports."""
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


class Tail:
    """Reads what a growing manifest has gained.

    Attributes:
        pid: of the worker, None before it has said so.
        exit_code: of the worker's pytest, None before its end.
        late_imports: of cases of an identity pass.
        is_short_of_memory: whether a case of an identity pass has no identity because memory was short.
        is_unusable: whether a case has left the worker's process unusable.
        questions: how often it has asked for more cases.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.pid: int | None = None
        self.exit_code: int | None = None
        self.late_imports: list[LateImport] = []
        self.is_short_of_memory = False
        self.is_unusable = False
        self.questions = 0

    def advance(self, progress: Progress) -> Progress:
        """Reads on to the last whole line."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                text = file.read()
        except OSError:
            return progress
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        case, done = progress.case, progress.done
        for event in map(_read_event, whole.splitlines()):
            name = event.get("event")
            if Subject(event.get("case", "")).is_canary:
                continue
            if name == "case":
                case = event["case"]
            elif name == "case_end":
                case, done = "", done + 1
            else:
                self._note(event, case)
        return Progress(progress.run, case, done, progress.total)

    def _note(self, event: Mapping[str, Any], case: str) -> None:
        """Keeps what an event says of the worker; `case` runs."""
        name = event.get("event")
        if name == "run":
            self.pid = event.get("pid")
        elif name == "end":
            self.exit_code = event["code"]
        elif name == "late_import":
            self.late_imports.append(LateImport(event["module"], case))
        elif name == "identity":
            self.is_short_of_memory |= event["identity"].get("why_none") == SHORT_OF_MEMORY
        elif name == "process_failure":
            self.is_unusable = True
        elif name == "wants_cases":
            self.questions += 1

    def has_ended(self) -> bool:
        """Whether the worker has begun and is gone; a profiler may still write its record."""
        return self.pid is not None and not is_running(self.pid)
