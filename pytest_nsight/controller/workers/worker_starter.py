"""Starts the workers of a session, each in a folder of its own, and follows one to its end."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_nsight.collectors.base import Collector
from pytest_nsight.controller.session_folders import make_run_folder
from pytest_nsight.controller.trees.revision_tree import Tree
from pytest_nsight.controller.workers.prewarmed import PrewarmedWorker
from pytest_nsight.controller.workers.progress import Progress, Tail
from pytest_nsight.controller.workers.time_limits import CaseClock, TimeLimits, end_overdue
from pytest_nsight.controller.workers.worker_failure import describe_removal
from pytest_nsight.model.errors import CollectorError, unwritable
from pytest_nsight.processes.child_process import ChildProcess
from pytest_nsight.protocol.job import INTERRUPTED_FILE, Job
from pytest_nsight.protocol.manifest import FILE_NAME
from pytest_nsight.protocol.parent_pipe import PipeToWorker
from pytest_nsight.protocol.script import Script
from pytest_nsight.protocol.worker_start import drop_coverage, start_command

POLL_S = 0.05

StartWorker = Callable[[Sequence[str], Path, Path, Mapping[str, str]], ChildProcess]
"""Starts a command on a run's folder, in a current folder, with an environment."""


@dataclass(frozen=True, slots=True)
class LiveSession:
    """What all workers of a session have in common.

    Attributes:
        id: of the session.
        recorded: UTC time of its start, ISO 8601.
        commit: git commit of the tested tree, "" when unknown.
        folder: the session's folder.
        collector: records the workers.
        trees: name -> a tree to measure.
        rounds: rounds of a case, None to let the measurement choose.
        keep: whether scrubbed traces stay.
        canaries: whether workers measure the plugin's own cases, too.
        environment: names and values that the controller knows and a comparison depends on.
        limits: how long cases may take.
        variables: environment variables of every worker, beside those of this process.
        script: what the workers run in place of a pytest, None for a pytest.
    """

    id: str
    recorded: str
    commit: str
    folder: Path
    collector: Collector
    trees: Mapping[str, Tree]
    rounds: int | None
    keep: bool
    canaries: bool
    environment: Mapping[str, str]
    limits: TimeLimits
    variables: Mapping[str, str] = field(default_factory=dict)
    script: Script | None = None


class WorkerStarter:
    """The part that all sources of live runs share.

    Attributes:
        session: what all workers have in common.
        watch: is called whenever a worker has moved on.
        started: workers that have been started under this prefix.
    """

    def __init__(
        self,
        session: LiveSession,
        watch: Callable[[Progress], None],
        *,
        launch: StartWorker | None = None,
        prefix: str = "run",
        started: int = 0,
    ) -> None:
        """Prepares to start.

        Args:
            session: what all workers have in common.
            watch: called whenever a worker has moved on.
            launch: starts a worker; the session's collector does where None.
            prefix: of the folders' names.
            started: workers that have been started under this prefix in the session's folder.
        """
        self.session = session
        self.watch = watch
        self.started = started
        self._launch = launch or session.collector.start
        self._prefix = prefix

    def next_run(self) -> tuple[Path, str]:
        """Folder and id of the run that begins."""
        self.started += 1
        return self.session.folder / f"{self._prefix}-{self.started:03}", f"{self.session.id}/{self.started:03}"

    def job(self, run: str, tree_name: str, *, canaries: bool) -> Job:
        """What a worker of this run is started for.

        Args:
            run: id of the run.
            tree_name: which of the session's trees it measures.
            canaries: whether it measures the plugin's own cases, too.
        """
        session, tree = self.session, self.session.trees[tree_name]
        return Job(
            run=run,
            session=session.id,
            recorded=session.recorded,
            commit=tree.commit or session.commit,
            collector=session.collector.name,
            rounds=session.rounds,
            arguments=tree.arguments,
            path=tree.path,
            environment={**session.environment, **session.collector.environment},
            canaries=canaries,
            root_pid=os.getpid(),
            tree=tree.name,
            mapping=tree.mapping,
            script=session.script,
        )

    def get_ready(self, folder: Path, job: Job) -> PrewarmedWorker:
        """Starts a worker, which gets as far as its first test and waits.

        Raises:
            CollectorError: it cannot be started.
        """
        make_run_folder(folder)
        pipe = write_job(folder, job)
        try:
            process = self.start("pytest_nsight.worker.inner_pytest", folder, job.tree)
        except BaseException:
            pipe.close()
            raise
        return PrewarmedWorker(job.tree, job.run, folder, process, pipe)

    def start(self, module: str, folder: Path, tree_name: str) -> ChildProcess:
        """Starts one of our programs on a run's folder, recorded.

        Raises:
            CollectorError: it cannot be started.
        """
        tree = self.session.trees[tree_name]
        environ = {**drop_coverage(os.environ), "PYTHONUNBUFFERED": "1", **self.session.variables, **tree.environ}
        return self._launch(start_command(module, folder), folder, tree.where, environ)

    def follow(
        self,
        running: PrewarmedWorker,
        total: int,
        look_ahead: Callable[[Tail, Progress], None] = lambda _tail, _progress: None,
    ) -> int | None:
        """Waits for the worker's end and reports its progress.

        Args:
            running: has its assignment.
            total: cases in it.
            look_ahead: called with the worker's record and progress all the while, and once after its end.

        Returns:
            Its exit code; None if the user's interrupt ended it.

        Raises:
            CollectorError: somebody has removed what it writes.
        """
        worker = _FollowedWorker(running, total, self.session.limits)
        try:
            while worker.is_running:
                self.watch(worker.advance())
                look_ahead(worker.tail, worker.progress)
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            worker.interrupt()
            return None
        look_ahead(worker.tail, worker.advance())
        return worker.end()

    def follow_together(
        self,
        running: Mapping[PrewarmedWorker, int],
        look_ahead: Callable[[Collection[str]], None] = lambda _late_imports: None,
    ) -> list[int | None]:
        """Waits for the end of all workers and reports their progress as that of one.

        Args:
            running: worker that has its assignment -> cases in it.
            look_ahead: called all the while with the slow modules that their cases have imported so far.

        Returns:
            Their exit codes; None of each if the user's interrupt ended them.

        Raises:
            CollectorError: somebody has removed what one of them writes.
        """
        workers = [_FollowedWorker(one, total, self.session.limits) for one, total in running.items()]
        try:
            while any(one.is_running for one in workers):
                states = [one.advance() for one in workers if one.is_running or one.progress.case]
                cases = [one.case for one in states if one.case]
                done, total = sum(one.progress.done for one in workers), sum(running.values())
                first = workers[0].progress.run
                self.watch(Progress(first, cases[0] if cases else "", done, total, tuple(cases[1:])))
                look_ahead({name for one in workers for name in one.tail.late_imports})
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            for one in workers:
                one.interrupt()
            return [None] * len(workers)
        for one in workers:
            one.advance()
        return [one.end() for one in workers]


class _FollowedWorker:
    """One worker that runs: how far it is, and whether it runs over its time.

    Attributes:
        tail: of its record.
        progress: where it stands.
    """

    def __init__(self, running: PrewarmedWorker, total: int, limits: TimeLimits) -> None:
        self._running = running
        self._journal = running.folder / FILE_NAME
        self._clock = CaseClock(limits)
        self.tail = Tail(self._journal)
        self.progress = Progress(running.run, "", 0, total)

    @property
    def is_running(self) -> bool:
        """Whether it has not come to its end."""
        return self._running.process.poll() is None

    def advance(self) -> Progress:
        """Reads what it has written since, and ends it if it runs over its time.

        Raises:
            CollectorError: see `end_overdue`.
        """
        self.progress = self.tail.advance(self.progress)
        has_ended = not self.progress.case and self.tail.has_ended()
        overdue = self._clock.find_overdue(self.progress, has_ended=has_ended) if self.is_running else None
        if overdue:
            end_overdue(self._running.folder, self.tail.pid or self._running.process.pid, overdue)
        return self.progress

    def interrupt(self) -> None:
        """Ends it as the user's interrupt does, and marks its folder.

        Raises:
            KeyboardInterrupt: it has not come far enough to have a record.
        """
        self.tail.advance(self.progress)
        self._running.process.interrupt(self.tail.pid)
        if not self._journal.exists():
            raise KeyboardInterrupt
        mark_interrupted(self._running.folder)

    def end(self) -> int | None:
        """Its exit code.

        Raises:
            CollectorError: somebody has removed what it writes.
        """
        if self.tail.pid is not None and not self._journal.exists():
            raise CollectorError(describe_removal(self._journal))
        return self._running.process.poll()


def mark_interrupted(folder: Path) -> None:
    """Marks a run's folder, so that a replay counts no process as failed; does nothing on a full disk."""
    with contextlib.suppress(OSError):
        (folder / INTERRUPTED_FILE).touch()


def write_job(folder: Path, job: Job) -> PipeToWorker:
    """Writes the job where its worker looks for it, and makes the pipe that ties the worker to this process.

    Raises:
        CollectorError: it cannot be written.
    """
    try:
        job.write(folder)
        return PipeToWorker(folder)
    except OSError as error:
        raise unwritable(folder, error) from None
