"""Follows a manifest while its worker writes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.model import Subject


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


class Tail:
    """Reads what a growing manifest has gained.

    Attributes:
        pid: of the worker, None before it has said so.
        exit_code: of the worker's pytest, None before its end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.pid: int | None = None
        self.exit_code: int | None = None

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
        for line in whole.splitlines():
            event = json.loads(line)
            if event["event"] == "run":
                self.pid = event["pid"]
            elif Subject(event.get("case", "")).is_canary:
                continue
            elif event["event"] == "case":
                case = event["case"]
            elif event["event"] == "case_end":
                case, done = "", done + 1
            elif event["event"] == "end":
                self.exit_code = event["code"]
        return Progress(progress.run, case, done, progress.total)
