"""What a worker has to do: a job, known when it starts, and an assignment of cases, which may come later.

Both are files in the run's folder. They are two files because a worker may be started before the cases that it
measures are known.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pytest_nsight.protocol.json_files import read_json_file
from pytest_nsight.protocol.script import Script

THIS_TREE = ""
OTHER_TREE = "against"
"""Name of the tree that --nsight-against measures beside the user's tree."""

_FILE = "assignment.json"


@dataclass(frozen=True, slots=True)
class Assignment:
    """The cases that one fresh process measures, or in an identity pass those that it runs next.

    Attributes:
        cases: node ids, in the order to measure them; none where they are not known yet.
        seed: of that order, None where it is the user's.
        tree: which tree is measured, THIS_TREE or OTHER_TREE.
        identifies: whether the launches of the cases are identified, and no times are measured.
        canaries: whether the plugin's own cases are measured beside them, if the job asks for those.
        canary_rounds: rounds of each of those, None for as many as a case of the user's has.
        continues: whether more cases may follow: the worker asks for them.
        repeats: whether they are identified again, beside few processes: if memory is short, it is their own doing.
        audited: cases that both trees are proven to launch alike: they have at least 15 rounds in place of 30.
    """

    cases: tuple[str, ...]
    seed: int | None = None
    tree: str = THIS_TREE
    identifies: bool = False
    canaries: bool = True
    canary_rounds: int | None = None
    continues: bool = False
    repeats: bool = False
    audited: tuple[str, ...] = ()

    def write(self, folder: Path) -> None:
        """Writes the assignment where the worker looks for it."""
        (folder / _FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Assignment:
        """The assignment of a run's folder.

        Raises:
            RecordingError: it cannot be read.
        """
        return read_json_file(cls, folder / _FILE)


JOB_FILE = "job.json"
WORKER_LOG = "worker.log"
INTERRUPTED_FILE = "interrupted"
"""In the folder of a run whose worker the user's interrupt ended."""

UNREAD_FILE = "unread"
"""In the folder of a run whose record could not be read; it says why."""

DIED_FILE = "died"
"""In the folder of a worker that a signal ended after its last test; it says how."""


@dataclass(frozen=True, slots=True)
class TreeMapping:
    """Where each path of the user's tree is in another tree.

    Three ways lead from a process into the user's tree. Entries of sys.path (PYTHONPATH, .pth files, conftests) are
    mapped before anything is imported. The finders of editable installs are asked, and what they find is mapped.
    Distributions that were installed from the tree as a copy are recognised and refused.

    Attributes:
        root: top folder of the user's tree.
        tree: top folder of the other tree.
        shared: folders inside `root` that both trees use: virtual environments, the other tree itself.
    """

    root: str
    tree: str
    shared: tuple[str, ...]

    def owns(self, path: str) -> bool:
        """Whether a path leads into the user's tree, and not into what both trees share."""
        real = os.path.realpath(path)
        if not _is_below(real, (self.root,)) or _is_below(real, self.shared):
            return False
        place = os.path.abspath(path)
        # What a virtual environment links to is shared; an absolute link in the other tree leads out of it.
        return _is_below(place, (self.tree,)) or not _is_below(place, self.shared)

    def map(self, path: str) -> str:
        """The place of a path in the other tree; a path outside the user's tree stays."""
        if not path or not self.owns(path):
            return path
        return os.path.normpath(os.path.join(self.tree, os.path.relpath(os.path.realpath(path), self.root)))

    def map_argument(self, argument: str) -> str:
        """The same for a command line argument: a path, `--option=path`, or `path::test`."""
        option, equals, value = argument.partition("=") if argument.startswith("-") else ("", "", argument)
        path, colons, rest = value.partition("::")
        return option + equals + (self.map(path) if os.path.isabs(path) else path) + colons + rest


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker process must know from its start.

    Attributes:
        run: id of the run.
        session: id of the session.
        recorded: UTC time of the session, ISO 8601.
        commit: git commit of the tested tree, "" when unknown.
        collector: name of the collector, by which the worker finds its recorder.
        rounds: rounds of a case, None to let the measurement choose.
        arguments: the user's pytest arguments.
        path: the user's sys.path.
        environment: the run's environment as far as the controller knows it.
        canaries: whether the canaries are measured, too.
        root_pid: the controller's process.
        rank: which of the cases' ranks this worker is.
        ranks: how many there are; 1 for ordinary tests.
        tree: which tree is measured, THIS_TREE or OTHER_TREE.
        mapping: redirects imports to that tree, None where they need no redirection.
        unable: case -> why this machine cannot run it.
        script: what is run in place of a pytest, None for a pytest.
        identifies: whether the launches of the cases are identified, and no times are measured.
    """

    run: str
    session: str
    recorded: str
    commit: str
    collector: str
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
    script: Script | None = None
    identifies: bool = False

    def write(self, folder: Path) -> None:
        """Writes the job where the worker looks for it."""
        (folder / JOB_FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Job:
        """The job of a run's folder.

        Raises:
            RecordingError: it cannot be read.
        """
        return read_json_file(cls, folder / JOB_FILE)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)


def was_measured_again(run: Path) -> bool:
    """Whether a run counts for nothing, because another one has measured its cases again."""
    return (run / UNREAD_FILE).exists() and not (run / DIED_FILE).exists()
