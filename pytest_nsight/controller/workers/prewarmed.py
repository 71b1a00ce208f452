"""Prewarmed workers: each imports and collects by itself, then waits for its assignment.

The assignment need not be known when a worker starts: a look decides it, and the process after a look should not
begin with seconds of imports.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_nsight.collectors.base import Collector
from pytest_nsight.controller.workers.manifest_tail import LateImport
from pytest_nsight.processes.child_process import ChildProcess
from pytest_nsight.processes.process_tree import is_running
from pytest_nsight.protocol.job import Assignment
from pytest_nsight.protocol.manifest import FILE_NAME
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.protocol.parent_pipe import PipeToWorker

_PATIENCE_S = 5.0
_POLL_S = 0.05

_CPUS_PER_PREWARMED = 4
_MOST_PREWARMED = 2
_FEW_CASES = 6
"""To measure so many takes less time than the imports of the next process, on a slow CPU a quarter of it."""
_MOST_BESIDE_FEW = 4


@dataclass(slots=True, eq=False)
class PrewarmedWorker:
    """One started worker process.

    Attributes:
        tree: which tree it measures.
        run: id of the run.
        folder: of the run.
        process: the worker, or the profiler that started it.
        pipe: what it waits for.
        assignment: what it measures, None before it has one.
        modules: that it imports while it waits.
    """

    tree: str
    run: str
    folder: Path
    process: ChildProcess
    pipe: PipeToWorker
    assignment: Assignment | None = None
    modules: set[str] = field(default_factory=set)

    @property
    def has_begun(self) -> bool:
        """Whether it has reached the plugin's code, or has ended."""
        return (self.folder / FILE_NAME).exists() or self.process.poll() is not None

    @property
    def is_lost(self) -> bool:
        """Whether it ended unnoticed, before it reached a case or said why it cannot measure.

        A profiler around it may still run.
        """
        journal = self.folder / FILE_NAME
        if not journal.exists():
            return self.process.poll() is not None
        manifest = read_manifest(journal)
        has_said_why = manifest.started or manifest.exit_code is not None
        return not has_said_why and not is_running(manifest.pid)

    def release(self, assignment: Assignment) -> None:
        """Gives it its assignment, once.

        Raises:
            CollectorError: its folder does not take it.
        """
        if self.assignment is None:
            self.pipe.send(assignment)
            self.assignment = assignment

    def extend(self, cases: Sequence[str]) -> None:
        """Gives it more cases when it has asked for them; without any it asks no more.

        Raises:
            CollectorError: its folder does not take them.
        """
        if self.assignment is not None:
            self.pipe.send(replace(self.assignment, cases=tuple(cases), continues=bool(cases)))

    def import_early(self, modules: Collection[str]) -> None:
        """Has it import these modules while it waits."""
        if self.assignment is None:
            for module in sorted(set(modules) - self.modules):
                self.modules.add(module)
                self.pipe.suggest_import(module)

    def can_take(self, assignment: Assignment) -> bool:
        """Whether it measures this assignment, or could take it."""
        return self.assignment == assignment if self.assignment is not None else self.tree == assignment.tree

    def call_off(self, collector: Collector) -> None:
        """Ends the worker without a trace of it: whatever it was to measure is no longer wanted."""
        self.pipe.close()
        try:
            with self.process:
                if self.assignment is None:
                    # It ends by itself before the next import; a profiler around it then tidies up its own files.
                    self.process.wait(_PATIENCE_S)
        finally:
            collector.tidy(self.folder, keep=False)
            shutil.rmtree(self.folder, ignore_errors=True)


class WaitingWorkers:
    """The prewarmed workers that have no turn yet, in the order in which they were started."""

    def __init__(self, start: Callable[[str], PrewarmedWorker], collector: Collector) -> None:
        """Starts nothing yet.

        Args:
            start: starts a worker on a tree.
            collector: what records them.
        """
        self._start = start
        self._collector = collector
        self._waiting: list[PrewarmedWorker] = []

    def take(self, assignment: Assignment) -> PrewarmedWorker:
        """A worker for this assignment: one that waits, or a new one.

        Raises:
            CollectorError: it cannot be started.
        """
        for lost in [prewarmed for prewarmed in self._waiting if prewarmed.is_lost]:
            self._waiting.remove(lost)
            lost.call_off(self._collector)
        found = next((prewarmed for prewarmed in self._waiting if prewarmed.can_take(assignment)), None)
        if found is None:
            self._wait_for_beginnings()
            return self._start(assignment.tree)
        self._waiting.remove(found)
        return found

    def _wait_for_beginnings(self) -> None:
        """Waits for the other workers to start: two nsys 2022.4 sessions that start together end each other."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline_s and not self._have_begun():
            time.sleep(_POLL_S)

    def _have_begun(self) -> bool:
        return all(prewarmed.has_begun for prewarmed in self._waiting)

    def fill(self, upcoming: Sequence[Assignment]) -> None:
        """Starts a worker that these assignments need and that is not there yet.

        Raises:
            CollectorError: it cannot be started.
        """
        there = [prewarmed.tree for prewarmed in self._waiting]
        for assignment in upcoming:
            if assignment.tree in there:
                there.remove(assignment.tree)
            elif self._have_begun():
                # One by one, for the reason above.
                self._waiting.append(self._start(assignment.tree))
                return

    def import_early(self, modules: Collection[str]) -> None:
        """Has those that wait now import these modules meanwhile."""
        for prewarmed in self._waiting:
            prewarmed.import_early(modules)

    def release(self, assignment: Assignment) -> None:
        """Gives this assignment, the next one, to a waiting worker, if its cases are known.

        Raises:
            CollectorError: the assignment cannot be written.
        """
        if assignment.cases and all(prewarmed.assignment is None for prewarmed in self._waiting):
            for prewarmed in self._waiting:
                if prewarmed.can_take(assignment):
                    prewarmed.release(assignment)
                    return

    def close(self) -> None:
        """Ends all of them: their assignment will not come."""
        waiting, self._waiting = self._waiting, []
        call_off_all(waiting, self._collector)


def call_off_all(waiting: Iterable[PrewarmedWorker], collector: Collector) -> None:
    """Ends workers whose assignment will not come: all at once, and each even if an earlier one raises."""
    with contextlib.ExitStack() as stack:
        for worker in waiting:
            worker.pipe.close()
            stack.callback(worker.call_off, collector)


def list_needed(late_imports: Iterable[LateImport], cases: Iterable[str]) -> set[str]:
    """The slow modules that these cases need: those that a case of the same test functions has imported.

    A function whose cases always ran after those of another one that imports the module too is not known.

    Args:
        late_imports: of an identity pass.
        cases: that are timed.
    """
    functions = {case.partition("[")[0] for case in cases}
    return {one.module for one in late_imports if one.case.partition("[")[0] in functions}


def count_prewarmed(cases: int = 0) -> int:
    """How many processes may get ready beside those that run; it depends on the CPUs this session may use.

    Args:
        cases: that are measured meanwhile. While many are, which takes long, more processes would only wait.
    """
    cpus = len(os.sched_getaffinity(0))
    most = _MOST_BESIDE_FEW if cases <= _FEW_CASES else _MOST_PREWARMED
    return max(1, min(most, cpus // _CPUS_PER_PREWARMED))
