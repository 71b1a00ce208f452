"""How far a worker is, and what it asks for: read from its manifest, which grows while it measures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_nsight.model.identity import SHORT_OF_MEMORY
from pytest_nsight.model.values import Subject
from pytest_nsight.processes.process_tree import is_running


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
        running, done = progress.case, progress.done
        for event in map(_read_event, whole.splitlines()):
            if Subject(event.get("case", "")).is_canary:
                continue
            match event.get("event"):
                case "case":
                    running = event["case"]
                case "case_end":
                    running, done = "", done + 1
                case _:
                    self._note(event, running)
        return Progress(progress.run, running, done, progress.total)

    def _note(self, event: Mapping[str, Any], running: str) -> None:
        """Keeps what an event says of the worker, while the case `running` runs."""
        match event.get("event"):
            case "run":
                self.pid = event.get("pid")
            case "end":
                self.exit_code = event["code"]
            case "late_import":
                self.late_imports.append(LateImport(event["module"], running))
            case "identity":
                self.is_short_of_memory |= event["identity"].get("why_none") == SHORT_OF_MEMORY
            case "process_failure":
                self.is_unusable = True
            case "wants_cases":
                self.questions += 1

    def has_ended(self) -> bool:
        """Whether the worker has begun and is gone; a profiler may still write its record."""
        return self.pid is not None and not is_running(self.pid)


def _read_event(line: bytes) -> Mapping[str, Any]:
    """The event of a manifest's line; an empty one if the line is damaged, which read_manifest reports."""
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
