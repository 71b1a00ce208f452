"""What a worker process must know from its start, as a file in its run's folder; turn.py tells the rest."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pytest_nsight.against.mirror import Mirror
from pytest_nsight.launch.turn import THIS_TREE

JOB_FILE = "job.json"


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker process must know from its start.

    Attributes:
        run: id of the run.
        session: id of the session.
        recorded: UTC time of the session, ISO 8601.
        commit: git commit of the tested tree, "" when unknown.
        recorder: "nsys" or "torch".
        rounds: rounds of a case, None to let the measurement choose.
        arguments: the user's pytest arguments.
        path: the user's sys.path.
        environment: what the controller knows of the run's environment.
        canaries: whether the plugin's own cases are measured, too.
        root_pid: the outer pytest's process.
        rank: which of the cases' ranks this worker is.
        ranks: how many there are; 1 for ordinary tests.
        side: which tree is measured, see launch/turn.py.
        mirror: leads imports to that tree, None where they go there by themselves.
        unable: case -> why this machine cannot run it.
    """

    run: str
    session: str
    recorded: str
    commit: str
    recorder: str
    rounds: int | None
    arguments: tuple[str, ...]
    path: tuple[str, ...]
    environment: dict[str, str]
    canaries: bool = True
    root_pid: int = 0
    rank: int = 0
    ranks: int = 1
    side: str = THIS_TREE
    mirror: Mirror | None = None
    unable: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Writes the job where the worker looks for it."""
        (folder / JOB_FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Job:
        """Reads the job of a run's folder."""
        values = json.loads((folder / JOB_FILE).read_text(encoding="utf-8"))
        for name in ("arguments", "path"):
            values[name] = tuple(values[name])
        values["mirror"] = Mirror.of(values["mirror"]) if values["mirror"] else None
        return cls(**values)
