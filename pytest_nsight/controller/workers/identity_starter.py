"""Starts the processes of an identity pass: without a profiler, and each with the same layout of addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from pytest_nsight.collectors.lookup import find_identifier_variables
from pytest_nsight.controller.workers.identity_folders import FOLDER_PREFIX
from pytest_nsight.controller.workers.prewarmed import PrewarmedWorker
from pytest_nsight.controller.workers.worker_starter import LiveSession, WorkerStarter
from pytest_nsight.processes.child_process import ChildProcess, start
from pytest_nsight.protocol.job import WORKER_LOG
from pytest_nsight.protocol.worker_start import fix_addresses, fix_allocator


class IdentityStarter:
    """The part that all identity passes of a session share."""

    def __init__(self, session: LiveSession, *, started: int = 0) -> None:
        """Prepares to start.

        Args:
            session: what all workers have in common.
            started: workers of other identity passes in the session's folder.
        """
        self._starter = WorkerStarter(session, launch=self._launch, prefix=FOLDER_PREFIX, started=started)

    def use(self, session: LiveSession) -> None:
        """Starts later workers for this session, since more is known of it now."""
        self._starter.session = session

    @property
    def started(self) -> int:
        """Workers that have been started for identity passes in the session's folder."""
        return self._starter.started

    def start(self, tree: str) -> PrewarmedWorker:
        """Starts a process that gets as far as its first test and waits.

        Raises:
            CollectorError: it cannot be started.
        """
        folder, run = self._starter.next_run()
        job = self._starter.job(run, tree, canaries=False)
        return self._starter.get_ready(folder, replace(job, run=f"{job.session}/identity pass", identifies=True))

    @cached_property
    def _variables(self) -> Mapping[str, str]:
        """What works here, tried once for both trees."""
        return find_identifier_variables()

    def _launch(self, worker: Sequence[str], folder: Path, where: Path, environ: Mapping[str, str]) -> ChildProcess:
        """Starts a worker without a profiler."""
        variables = {**fix_allocator(environ), **self._variables}
        return start(fix_addresses(worker), folder / WORKER_LOG, where, variables)
