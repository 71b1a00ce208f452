"""The identity pass: workers without a profiler, which say what each case launches before any is timed."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import Protocol

from pytest_nsight.controller.workers.followed_worker import FollowedWorker
from pytest_nsight.controller.workers.identity_folders import fail_without_record, read_ended
from pytest_nsight.controller.workers.identity_retries import (
    count_repeats,
    count_retries,
    identify_left,
    is_interrupted,
    list_repeats,
)
from pytest_nsight.controller.workers.identity_shares import PartQueue, count_processes, share_out
from pytest_nsight.controller.workers.manifest_tail import LateImport, Progress
from pytest_nsight.controller.workers.prewarmed import PrewarmedWorker
from pytest_nsight.controller.workers.spare_workers import SpareWorkers
from pytest_nsight.controller.workers.time_limits import TimeLimits
from pytest_nsight.controller.workers.worker_starter import POLL_S
from pytest_nsight.gate.loop import Source
from pytest_nsight.model.errors import CollectorError, RecordingError
from pytest_nsight.processes.log_files import shorten
from pytest_nsight.protocol.job import WORKER_LOG, Assignment
from pytest_nsight.trace.process_record import MeasuredProcess

_REPEATED_AT_ONCE = 2
"""Processes of each tree that identify cases again side by side: memory may have been short when all ran."""

GetReady = Callable[[Sequence[Assignment], Collection[LateImport]], None]


class IdentityPass:
    """Identifies the launches of cases in fresh processes."""

    def __init__(
        self,
        spare: SpareWorkers,
        limits: TimeLimits,
        watch: Callable[[Progress], None],
        *,
        get_ready: GetReady = lambda _assignments, _late_imports: None,
    ) -> None:
        """Prepares a source.

        Args:
            spare: starts its processes, and has some that have been started.
            limits: how long cases may take.
            watch: called whenever a worker has moved on.
            get_ready: called all the while with the assignments that are timed next, and with the slow modules that
                cases have imported so far; starts at most one of their processes at a time.
        """
        self._limits = limits
        self._watch = watch
        self._get_ready = get_ready
        self._timed_next: Sequence[Assignment] = ()
        self._found: dict[str, tuple[MeasuredProcess, ...]] = {}
        self._spare = spare

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> tuple[MeasuredProcess, ...]:
        """Runs the cases once, shared out to several processes: nothing is timed, so they may disturb each other.

        The record of a process that fails says so, and no error is raised: its cases can be timed.

        Args:
            assignment: the cases of one tree.
            upcoming: the next calls'. The passes of two trees run beside one another, and the processes of the
                first timed runs get ready beside them.
        """
        if assignment.tree not in self._found:
            self._timed_next = [one for one in upcoming if not one.identifies]
            passes = [assignment, *(one for one in upcoming if one.identifies)]
            with contextlib.closing(self._spare):
                self._found = self._identify_trees(passes)
        return self._found.pop(assignment.tree)

    def _identify_trees(self, passes: Sequence[Assignment]) -> dict[str, tuple[MeasuredProcess, ...]]:
        """The processes of each tree, and those that have tried again what others left open."""
        processes = self._identify_shared(passes)
        found = {one.tree: tuple(own for own in processes if own.manifest.tree == one.tree) for one in passes}
        if not is_interrupted(processes):
            found = identify_left(passes, processes, self._identify, at_once=_REPEATED_AT_ONCE)
        repeats = list_repeats(list(found.values()), most=len(processes) // len(passes))
        while repeats and not is_interrupted(chain.from_iterable(found.values())):
            batch, repeats = repeats[:_REPEATED_AT_ONCE], repeats[_REPEATED_AT_ONCE:]
            again = [replace(one, cases=cases, repeats=True) for one in passes for cases in batch]
            for process in self._identify(again):
                found[process.manifest.tree] += (replace(process, failure=""),)
        return found

    def _identify_shared(self, passes: Sequence[Assignment]) -> tuple[MeasuredProcess, ...]:
        """Identifies the cases of each tree in several processes.

        Two trees are compared with one another, so pairs of their processes take what is next. One tree is compared
        with what other sessions have stored: its shares are the same each time.
        """
        cpus = len(os.sched_getaffinity(0))
        counts = [count_processes(one.cases, cpus) for one in passes]
        if len(passes) == 1 or counts[0] == 1 or passes[0].cases != passes[1].cases:
            shared = zip(passes, counts, strict=True)
            return self._identify(
                [replace(one, cases=share) for one, count in shared for share in share_out(one.cases, count)]
            )
        queue = PartQueue(passes[0].cases, counts[0])
        owners = [one for one in passes for _ in range(counts[0])]
        return self._identify([replace(one, cases=queue.list_cases(at)) for at, one in enumerate(owners)], queue)

    def _identify(
        self, assignments: Sequence[Assignment], queue: PartQueue | None = None
    ) -> tuple[MeasuredProcess, ...]:
        """Runs processes beside one another; `cases` of one that failed are those that it has not identified.

        Args:
            assignments: what each process does, tree by tree.
            queue: of what the processes take after that.
        """
        running: list[PrewarmedWorker] = []
        try:
            with contextlib.ExitStack() as processes:
                for assignment in assignments:
                    worker = self._spare.take(assignment.tree)
                    running.append(worker)
                    processes.enter_context(worker.process)
                    worker.release(replace(assignment, continues=queue is not None))
                self._spare.dismiss_early()
                codes = self._follow(running, queue)
            ended = zip(running, _list_given(assignments, queue), codes, strict=True)
            return tuple(read_ended(worker.folder, assignment, code) for worker, assignment, code in ended)
        except (CollectorError, RecordingError) as error:
            given = _list_given(assignments, queue)
            return tuple(fail_without_record(one.tree, one.cases, str(error)) for one in given)
        finally:
            for worker in running:
                worker.pipe.close()
                shorten(worker.folder / WORKER_LOG)

    def _follow(self, running: Sequence[PrewarmedWorker], queue: PartQueue | None) -> list[int | None]:
        """Waits for the end of all processes, gives them more cases, and reports their progress as that of one.

        Returns:
            Their exit codes; None of each if the user's interrupt ended them.

        Raises:
            CollectorError: somebody has removed what one of them writes.
        """
        assigned = [len(one.assignment.cases) if one.assignment is not None else 0 for one in running]
        total = sum(assigned) if queue is None else queue.total
        fills_all_cpus = len(running) >= len(os.sched_getaffinity(0))
        workers = [FollowedWorker(one, total, self._limits) for one in running]
        try:
            while any(one.is_running for one in workers):
                states = [one.advance() for one in workers if one.is_running or one.progress.case]
                if queue is not None:
                    _answer(workers, running, queue)
                cases = [one.case for one in states if one.case]
                done = sum(one.progress.done for one in workers)
                first = workers[0].progress.run
                self._watch(Progress(first, cases[0] if cases else "", done, total, tuple(cases[1:])))
                imported = [found for one in workers for found in one.tail.late_imports]
                # While as many start as there are CPUs, the processes of timed runs would only delay them.
                if cases or done or not fills_all_cpus:
                    self._get_ready(self._timed_next, imported)
                trees = [one.tree for one in running]
                wanted = count_retries(workers, trees)
                if queue is not None:
                    wanted |= count_repeats(workers, trees)
                if wanted:
                    self._spare.get_ready(wanted, {found.module for found in imported})
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            # All at once: each may take seconds to end.
            with ThreadPoolExecutor(len(workers)) as pool:
                list(pool.map(FollowedWorker.interrupt, workers))
            return [None] * len(workers)
        for one in workers:
            one.advance()
        return [one.end() for one in workers]

    def close(self) -> None:
        """Ends the processes that were started for a pass that will not come."""
        self._spare.close()


def _answer(workers: Sequence[FollowedWorker], running: Sequence[PrewarmedWorker], queue: PartQueue) -> None:
    """Gives a part to each process that has asked for one and need not wait for its counterpart."""
    for at, worker in enumerate(workers):
        if not worker.is_running:
            queue.leave(at)
        elif worker.answers < worker.tail.questions and (part := queue.take(at, worker.answers + 1)) is not None:
            worker.answers += 1
            running[at].extend(part)


def _list_given(assignments: Sequence[Assignment], queue: PartQueue | None) -> list[Assignment]:
    """The assignments with all cases that each process was to identify, once all have ended."""
    if queue is None:
        return list(assignments)
    queue.close()
    return [replace(one, cases=queue.list_cases(at)) for at, one in enumerate(assignments)]


class TimedSource(Source, Protocol):
    """A source of timed runs, whose processes can get ready before they are wanted."""

    def get_ready(self, upcoming: Sequence[Assignment], late_imports: Collection[LateImport]) -> None:
        """Starts a process for one of these assignments that has none, if that can be done beside others.

        Args:
            upcoming: assignments, the next one first.
            late_imports: of the identity pass; what these processes import while they wait.
        """


class IdentifyingSource:
    """A source of runs that begins with an identity pass."""

    def __init__(self, identity_pass: Source, timed: Source) -> None:
        self._identity_pass = identity_pass
        self._timed = timed

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> Sequence[MeasuredProcess]:
        """Identifies or times, as the assignment says.

        Raises:
            CollectorError: nothing of a timed run can be used.
        """
        source = self._identity_pass if assignment.identifies else self._timed
        return source.execute(assignment, upcoming)

    def close(self) -> None:
        """Ends the processes that were prepared for a further call, because none will come."""
        self._identity_pass.close()
        self._timed.close()
