"""Which workers run side by side under one profiler, and how each of them ended.

The controller writes the plan into a run's folder; supervisor.py starts the workers and records their exits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pytest_nsight.model.json_text import DecodingError
from pytest_nsight.protocol.json_files import damaged, read_json_file, read_json_lines, read_known

PLAN_FILE = "plan.json"
EXITS_FILE = "ends.jsonl"
FAILED_FILE = "failed"
"""A rank whose test failed leaves this file in its folder: its peers may wait for it for ever."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """One worker process.

    Attributes:
        folder: name of its folder in the run's.
        environ: environment variables that only it gets.
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
    """The worker processes of one run.

    Attributes:
        stages: they run one after the other; the groups of a stage run at the same time.
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
        """The plan of a run's folder.

        Raises:
            RecordingError: it cannot be read.
        """
        return read_json_file(cls, folder / PLAN_FILE)


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """How one worker ended.

    Attributes:
        code: exit code, -n where signal n killed it; None where the end was not observed.
        failed_peer: folder of the rank whose failure made the supervisor end this one, "" if it ended by itself.
        children: process ids of what it had started, as far as observed.
    """

    code: int | None = None
    failed_peer: str = ""
    children: tuple[int, ...] = ()


def has_plan(folder: Path) -> bool:
    """Whether several workers ran side by side in this run's folder."""
    return (folder / PLAN_FILE).exists()


def read_exits(folder: Path) -> dict[str, WorkerExit]:
    """How the workers of a run's folder ended, by the name of their folder; none where no end was recorded.

    Raises:
        RecordingError: the file is damaged.
    """
    path = folder / EXITS_FILE
    if not path.exists():
        return {}
    return dict(_read_exit(path, number, fields) for number, fields in read_json_lines(path))


def _read_exit(path: Path, number: int, fields: Mapping[str, object]) -> tuple[str, WorkerExit]:
    try:
        return str(fields.get("member", "")), read_known(WorkerExit, fields)
    except DecodingError as error:
        raise damaged(path, number, error) from None
