"""What a worker has to do: a job, known when it starts, and an assignment of cases, which may come later.

Both are files in the run's folder. The assignment is apart from the job because a worker may be started before
the cases that it measures are known.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pytest_nsight.protocol.tree_mapping import TreeMapping

THIS_TREE = ""
OTHER_TREE = "against"
"""Name of the tree that --nsight-against measures beside the user's tree."""

_FILE = "assignment.json"


@dataclass(frozen=True, slots=True)
class Assignment:
    """The task of one fresh process.

    Attributes:
        cases: node ids, in the order to measure them; none where nobody knows them yet.
        seed: of that order, None where it is the user's. Where two trees are compared, the later pairs leave out
            what only one tree has.
        tree: which tree is measured, THIS_TREE or OTHER_TREE.
    """

    cases: tuple[str, ...]
    seed: int | None = None
    tree: str = THIS_TREE

    def write(self, folder: Path) -> None:
        """Writes the assignment where the worker looks for it."""
        (folder / _FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Assignment:
        """Reads the assignment of a run's folder."""
        values = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        return cls(tuple(values["cases"]), values["seed"], values["tree"])


JOB_FILE = "job.json"
WORKER_LOG = "worker.log"


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
        tree: which tree is measured, THIS_TREE or OTHER_TREE.
        mapping: leads imports to that tree, None where they go there by themselves.
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
    tree: str = THIS_TREE
    mapping: TreeMapping | None = None
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
        values["mapping"] = TreeMapping.of(values["mapping"]) if values["mapping"] else None
        return cls(**values)


_HOME = Path(__file__).parents[2]
_START = """import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from importlib import import_module
sys.exit(import_module(sys.argv[2]).main(Path(sys.argv[3])))"""


def start_command(module: str, folder: Path) -> tuple[str, ...]:
    """The command line of a module whose `main` takes the folder of a run.

    It imports the plugin of this process, whatever lies in the folder that it is started in.
    """
    return (sys.executable, "-c", _START, str(_HOME), module, str(folder))
