"""Starts several worker processes side by side, so that one profiler records them all.

Started by fleet.py with a folder; FOLDER/fanout.json is the plan, and FOLDER/ends.jsonl tells how
each worker ended. It measures nothing, imports neither torch nor pytest, and uses no GPU.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from pytest_nsight.bootstrap import command
from pytest_nsight.collect.collector import LOG_FILE
from pytest_nsight.measure.others import parent_of

PLAN_FILE = "fanout.json"
ENDS_FILE = "ends.jsonl"
FAILED_FILE = "failed"
"""Left by a rank whose test failed, in its folder: its peers may wait for it for ever."""

PEER_GRACE_S = 5.0
"""How long the peers of a rank that failed may take to end by themselves."""

_POLL_S = 0.05
_LOOK_S = 0.25
"""What uses a GPU lives longer than this: starting CUDA alone takes a quarter of a second."""

_KILL_S = 3.0
_INTERRUPT_S = 8.0


@dataclass(frozen=True, slots=True)
class Member:
    """One worker process.

    Attributes:
        folder: name of its folder in the run's.
        environ: environment variables that are its own.
    """

    folder: str
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Team:
    """Worker processes that measure the same cases together: one worker, or the ranks of parallel tests.

    Attributes:
        cases: node ids, in order.
        members: one, or rank 0, 1, and so on.
    """

    cases: tuple[str, ...]
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What runs when.

    Attributes:
        stages: one after the other; the teams of a stage run at once.
    """

    stages: tuple[tuple[Team, ...], ...]

    @property
    def teams(self) -> tuple[Team, ...]:
        """All teams, in order."""
        return tuple(team for stage in self.stages for team in stage)

    def write(self, folder: Path) -> None:
        """Writes the plan into a run's folder."""
        (folder / PLAN_FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """Reads the plan of a run's folder."""
        stored = json.loads((folder / PLAN_FILE).read_text(encoding="utf-8"))
        return cls(tuple(tuple(_team(team) for team in stage) for stage in stored["stages"]))


def _team(stored: Mapping[str, Any]) -> Team:
    return Team(tuple(stored["cases"]), tuple(Member(**member) for member in stored["members"]))


@dataclass(frozen=True, slots=True)
class End:
    """How one worker ended.

    Attributes:
        code: exit code, -n where signal n killed it; None where nobody saw the end.
        blame: folder of the peer because of which it was ended, "" if it ended by itself.
        children: process ids of what it had started, as far as seen.
    """

    code: int | None = None
    blame: str = ""
    children: tuple[int, ...] = ()


def read_ends(folder: Path) -> dict[str, End]:
    """How the workers of a run's folder ended, by member; a line that was cut off is left out."""
    try:
        lines = (folder / ENDS_FILE).read_text(encoding="utf-8").split("\n")[:-1]
    except OSError:
        return {}
    stored = [json.loads(line) for line in lines]
    return {end["member"]: End(end["code"], end["blame"], tuple(end["children"])) for end in stored}


class _Worker:
    """A running member."""

    def __init__(self, member: Member, folder: Path) -> None:
        self.member = member
        self.folder = folder / member.folder
        with (self.folder / LOG_FILE).open("ab") as log:
            self.popen = subprocess.Popen(
                command("pytest_nsight.worker", self.folder),
                env={**os.environ, **member.environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # An interrupt comes from here alone: two of them would cut short the worker's own clearing up.
                start_new_session=True,
            )
        self.blame = ""
        self.children: set[int] = set()

    @property
    def has_trouble(self) -> bool:
        """Whether its peers may wait for it in vain."""
        return bool(self.popen.poll()) or (self.folder / FAILED_FILE).exists()

    def look(self, children: Mapping[int, Sequence[int]]) -> None:
        """Notes what it has started; who a process belongs to cannot be told once its parent is gone."""
        found = [self.popen.pid]
        for pid in found:
            found += children.get(pid, ())
        self.children.update(found[1:])

    def send(self, number: signal.Signals) -> None:
        """Signals the process, unless it has ended."""
        if self.popen.poll() is None:
            self.popen.send_signal(number)


def _children() -> dict[int, list[int]]:
    """Process id -> those of its living children; empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        pid = int(folder.name)
        parent = parent_of(pid)
        if parent is not None:
            children.setdefault(parent, []).append(pid)
    return children


class Launcher:
    """Works a plan off."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._interrupted_at: float | None = None

    def interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """Asks for an end: nothing more is started, what runs is interrupted."""
        if self._interrupted_at is None:
            self._interrupted_at = time.monotonic()

    def run(self, plan: Plan) -> None:
        """Runs stage after stage, whatever becomes of the workers."""
        for stage in plan.stages:
            if self._interrupted_at is None:
                teams = [[_Worker(member, self._folder) for member in team.members] for team in stage]
                self._wait(teams)

    def _wait(self, teams: Sequence[Sequence[_Worker]]) -> None:
        running = [worker for team in teams for worker in team]
        since: dict[int, float] = {}
        looked_at, has_forwarded = 0.0, False
        while running:
            now = time.monotonic()
            for number, team in enumerate(teams):
                _end_abandoned(team, since.setdefault(number, now) if _troubled(team) else None, now)
            if self._interrupted_at is not None:
                number = signal.SIGKILL if now - self._interrupted_at > _INTERRUPT_S else signal.SIGINT
                if number == signal.SIGKILL or not has_forwarded:
                    for worker in running:
                        worker.send(number)
                has_forwarded = True
            if now - looked_at > _LOOK_S:
                looked_at, children = now, _children()
                for worker in running:
                    worker.look(children)
            for worker in [worker for worker in running if worker.popen.poll() is not None]:
                running.remove(worker)
                self._tell(worker)
            time.sleep(_POLL_S)

    def _tell(self, worker: _Worker) -> None:
        end = End(worker.popen.returncode, worker.blame, tuple(sorted(worker.children)))
        with (self._folder / ENDS_FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"member": worker.member.folder, **asdict(end)}) + "\n")


def _troubled(team: Sequence[_Worker]) -> _Worker | None:
    return next((worker for worker in team if len(team) > 1 and worker.has_trouble), None)


def _end_abandoned(team: Sequence[_Worker], since: float | None, now: float) -> None:
    """Ends the ranks that are left when one has failed or died: they may wait in a collective for ever."""
    culprit = _troubled(team)
    if culprit is None or since is None or now - since < PEER_GRACE_S:
        return
    for worker in team:
        if worker.popen.poll() is None:
            worker.blame = culprit.member.folder
            worker.send(signal.SIGKILL if now - since > PEER_GRACE_S + _KILL_S else signal.SIGTERM)


def main(folder: Path) -> int:
    """Works off the plan of a run's folder."""
    launcher = Launcher(folder)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, launcher.interrupt)
    launcher.run(Plan.read(folder))
    return 0
