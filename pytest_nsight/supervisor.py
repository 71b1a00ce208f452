"""Starts several workers side by side, so that one profiler records them all, and ends ranks whose peer failed.

The controller starts this program with the folder of a run, which holds the plan; it records how each worker ended.
It measures nothing, imports neither torch nor pytest, and uses no GPU.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType

import psutil

from pytest_nsight.protocol.job import WORKER_LOG
from pytest_nsight.protocol.worker_plan import EXITS_FILE, FAILED_FILE, WorkerExit, WorkerPlan, WorkerSpec
from pytest_nsight.protocol.worker_start import start_command

PEER_GRACE_S = 5.0
"""How long the peers of a rank that failed may take to end by themselves."""

_POLL_S = 0.05
_LOOK_S = 0.25
"""What uses a GPU lives longer than this: starting CUDA alone takes a quarter of a second."""

_KILL_S = 3.0
_INTERRUPT_S = 8.0


class _RunningWorker:
    """A worker process that was started."""

    def __init__(self, member: WorkerSpec, folder: Path) -> None:
        self.member = member
        self.folder = folder / member.folder
        with (self.folder / WORKER_LOG).open("ab") as log:
            self.popen = subprocess.Popen(
                start_command("pytest_nsight.worker.worker_process", self.folder),
                env={**os.environ, **member.environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Only this process interrupts it: a second interrupt would break off the worker's own teardown.
                start_new_session=True,
            )
        self.failed_peer = ""
        self.children: set[int] = set()

    @property
    def has_failed(self) -> bool:
        """Whether it failed, so that its peers may wait for ever."""
        return bool(self.popen.poll()) or (self.folder / FAILED_FILE).exists()

    def record_children(self) -> None:
        """Records what it has started; a process cannot be assigned to a worker once its parent is gone."""
        try:
            self.children |= {child.pid for child in psutil.Process(self.popen.pid).children(recursive=True)}
        except psutil.Error:
            return

    def send(self, number: signal.Signals) -> None:
        """Signals the process, unless it has ended."""
        if self.popen.poll() is None:
            self.popen.send_signal(number)


class Supervisor:
    """Runs a plan."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._interrupted_at: float | None = None

    def interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """Asks for an end: nothing more is started, what runs is interrupted."""
        if self._interrupted_at is None:
            self._interrupted_at = time.monotonic()

    def run(self, plan: WorkerPlan) -> None:
        """Runs stage after stage, whether or not workers fail."""
        for stage in plan.stages:
            if self._interrupted_at is None:
                groups = [[_RunningWorker(member, self._folder) for member in group.members] for group in stage]
                self._wait(groups)

    def _wait(self, groups: Sequence[Sequence[_RunningWorker]]) -> None:
        running = [worker for group in groups for worker in group]
        since: dict[int, float] = {}
        looked_at, has_forwarded = 0.0, False
        while running:
            now = time.monotonic()
            for number, group in enumerate(groups):
                _end_abandoned(group, since.setdefault(number, now) if _find_failed(group) else None, now)
            if self._interrupted_at is not None:
                number = signal.SIGKILL if now - self._interrupted_at > _INTERRUPT_S else signal.SIGINT
                if number == signal.SIGKILL or not has_forwarded:
                    for worker in running:
                        worker.send(number)
                has_forwarded = True
            if now - looked_at > _LOOK_S:
                looked_at = now
                for worker in running:
                    worker.record_children()
            for worker in [worker for worker in running if worker.popen.poll() is not None]:
                running.remove(worker)
                self._record_exit(worker)
            time.sleep(_POLL_S)

    def _record_exit(self, worker: _RunningWorker) -> None:
        end = WorkerExit(worker.popen.returncode, worker.failed_peer, tuple(sorted(worker.children)))
        with (self._folder / EXITS_FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"member": worker.member.folder, **asdict(end)}) + "\n")


def _find_failed(group: Sequence[_RunningWorker]) -> _RunningWorker | None:
    return next((worker for worker in group if len(group) > 1 and worker.has_failed), None)


def _end_abandoned(group: Sequence[_RunningWorker], since: float | None, now: float) -> None:
    """Ends the remaining ranks when one has failed or died: they may wait in a collective for ever."""
    failed = _find_failed(group)
    if failed is None or since is None or now - since < PEER_GRACE_S:
        return
    for worker in group:
        if worker.popen.poll() is None:
            worker.failed_peer = failed.member.folder
            worker.send(signal.SIGKILL if now - since > PEER_GRACE_S + _KILL_S else signal.SIGTERM)


def main(folder: Path) -> int:
    """Runs the plan of a run's folder."""
    supervisor = Supervisor(folder)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, supervisor.interrupt)
    supervisor.run(WorkerPlan.read(folder))
    return 0
