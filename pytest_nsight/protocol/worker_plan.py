"""Which workers run side by side under one profiler, and how each of them ended.

The controller writes the plan into a run's folder; supervisor.py starts the workers and records their exits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

PLAN_FILE = "fanout.json"
EXITS_FILE = "ends.jsonl"
FAILED_FILE = "failed"
"""Left by a rank whose test failed, in its folder: its peers may wait for it for ever."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """One worker process.

    Attributes:
        folder: name of its folder in the run's.
        environ: environment variables that are its own.
    """

    folder: str
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """Worker processes that measure the same cases together: one worker, or the ranks of parallel tests.

    Attributes:
        cases: node ids, in order.
        members: one, or rank 0, 1, and so on.
    """

    cases: tuple[str, ...]
    members: tuple[WorkerSpec, ...]


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """What runs when.

    Attributes:
        stages: one after the other; the groups of a stage run at once.
    """

    stages: tuple[tuple[WorkerGroup, ...], ...]

    @property
    def groups(self) -> tuple[WorkerGroup, ...]:
        """All groups, in order."""
        return tuple(group for stage in self.stages for group in stage)

    def write(self, folder: Path) -> None:
        """Writes the plan into a run's folder."""
        (folder / PLAN_FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> WorkerPlan:
        """Reads the plan of a run's folder."""
        stored = json.loads((folder / PLAN_FILE).read_text(encoding="utf-8"))
        return cls(tuple(tuple(_team(group) for group in stage) for stage in stored["stages"]))


def _team(stored: Mapping[str, Any]) -> WorkerGroup:
    return WorkerGroup(tuple(stored["cases"]), tuple(WorkerSpec(**member) for member in stored["members"]))


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """How one worker ended.

    Attributes:
        code: exit code, -n where signal n killed it; None where nobody saw the end.
        failed_peer: folder of the peer because of which it was ended, "" if it ended by itself.
        children: process ids of what it had started, as far as seen.
    """

    code: int | None = None
    failed_peer: str = ""
    children: tuple[int, ...] = ()


def read_exits(folder: Path) -> dict[str, WorkerExit]:
    """How the workers of a run's folder ended, by member; a line that was cut off is left out."""
    try:
        lines = (folder / EXITS_FILE).read_text(encoding="utf-8").split("\n")[:-1]
    except OSError:
        return {}
    stored = [json.loads(line) for line in lines]
    # Older recordings name the peer "blame".
    return {
        end["member"]: WorkerExit(end["code"], end.get("failed_peer", end.get("blame", "")), tuple(end["children"]))
        for end in stored
    }
