"""Starts the workers of a session, each in a folder of its own, and follows one to its end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_nsight.collectors.base import Collector
from pytest_nsight.controller.session_folders import make_run_folder
from pytest_nsight.controller.trees.revision_tree import Tree
from pytest_nsight.controller.workers.followed_worker import FollowedWorker
from pytest_nsight.controller.workers.manifest_tail import Progress, Tail
from pytest_nsight.controller.workers.prewarmed import PrewarmedWorker
from pytest_nsight.controller.workers.time_limits import TimeLimits
from pytest_nsight.model.errors import unwritable
from pytest_nsight.processes.child_process import ChildProcess
from pytest_nsight.processes.git_calls import drop_repository
from pytest_nsight.protocol.job import Job
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
        started: workers that have been started under this prefix.
    """

    def __init__(
        self,
        session: LiveSession,
        *,
        launch: StartWorker | None = None,
        prefix: str = "run",
        started: int = 0,
    ) -> None:
        """Prepares to start.

        Args:
            session: what all workers have in common.
            launch: starts a worker; the session's collector does where None.
            prefix: of the folders' names.
            started: workers that have been started under this prefix in the session's folder.
        """
        self.session = session
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
            process = self.start("pytest_nsight.worker.worker_process", folder, job.tree)
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
        # git started this pytest if it is a hook's, with variables about the user's tree.
        given = os.environ if tree.mapping is None else drop_repository(os.environ)
        environ = {**drop_coverage(given), "PYTHONUNBUFFERED": "1", **self.session.variables, **tree.environ}
        return self._launch(start_command(module, folder), folder, tree.where, environ)

    def follow(
        self,
        running: PrewarmedWorker,
        total: int,
        watch: Callable[[Progress], None],
        look_ahead: Callable[[Tail, Progress], None] = lambda _tail, _progress: None,
    ) -> int | None:
        """Waits for the worker's end and reports its progress.

        Args:
            running: has its assignment.
            total: cases in it.
            watch: called whenever it has moved on.
            look_ahead: called with the worker's record and progress all the while, and once after its end.

        Returns:
            Its exit code; None if the user's interrupt ended it.

        Raises:
            CollectorError: somebody has removed what it writes.
        """
        worker = FollowedWorker(running, total, self.session.limits)
        try:
            while worker.is_running:
                watch(worker.advance())
                look_ahead(worker.tail, worker.progress)
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            worker.interrupt()
            return None
        look_ahead(worker.tail, worker.advance())
        return worker.end()


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
