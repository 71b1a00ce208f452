"""What a session measures with: its collector, its GPUs, and the sources of its runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from pytest_nsight.collectors.lookup import choose
from pytest_nsight.controller.session_folders import SESSIONS_FOLDER
from pytest_nsight.controller.session_plan import expects_identity_pass
from pytest_nsight.controller.session_trees import SessionTrees
from pytest_nsight.controller.settings import Settings
from pytest_nsight.controller.workers.early_processes import EarlyProcesses
from pytest_nsight.controller.workers.first_pass import place_first_pass
from pytest_nsight.controller.workers.gpu_assignment import choose_gpus
from pytest_nsight.controller.workers.identity_pass import IdentifyingSource, IdentityPass, TimedSource
from pytest_nsight.controller.workers.manifest_tail import Progress
from pytest_nsight.controller.workers.parallel_runs import ParallelSource
from pytest_nsight.controller.workers.time_limits import TimeLimits
from pytest_nsight.controller.workers.worker_run import LiveSource
from pytest_nsight.controller.workers.worker_starter import LiveSession
from pytest_nsight.gate.loop import Source
from pytest_nsight.gate.state import SessionPlan
from pytest_nsight.model.errors import NsightError
from pytest_nsight.model.values import Case
from pytest_nsight.processes.machine import cpu_variables, gpus


class LiveRuns:
    """The part of a session that a replay does not have.

    Attributes:
        collector: records the workers.
        notes: sentences on what the collector cannot do here, and on trees that are the same.
        gpus: the visible GPUs.
        worker_gpus: CUDA_VISIBLE_DEVICES of each of several workers; empty for one worker that sees all GPUs.
        trees: what is measured, and the session's folder.
    """

    def __init__(self, settings: Settings, name: tuple[str, str], arguments: Sequence[str], where: Path) -> None:
        """Chooses the collector.

        Args:
            settings: what the user asked for.
            name: id of the session and UTC time of its start, see `name_session`.
            arguments: what a worker's pytest is called with.
            where: folder that pytest was started in.

        Raises:
            NsightError: nothing here can measure, or not as asked.
        """
        self._settings = settings
        self._id, self._recorded = name
        self.collector, self.notes = choose(settings.collector, settings.recording, strict=settings.strict)
        self.gpus = gpus()
        self.worker_gpus = choose_gpus(settings.workers, self.gpus, settings.most_workers)
        self.trees = SessionTrees(settings, settings.root / SESSIONS_FOLDER / self._id, arguments, where)
        self.notes += self.trees.notes
        self._environment: Mapping[str, str] = MappingProxyType({})
        self._early: EarlyProcesses | None = None
        self._has_begun = self._has_measured = False

    @property
    def worker_variables(self) -> dict[str, str]:
        """Environment variables of all workers.

        They set the threads of operators where the CPU is measured. Sets of texts have one order in every process
        that runs a script, so that a loop over one makes the same calls.
        """
        found = cpu_variables(self._settings.cpu_threads, os.environ) if self.collector.times_cpu else {}
        if self._settings.script is not None and "PYTHONHASHSEED" not in os.environ:
            found["PYTHONHASHSEED"] = "0"
        return found

    def start_early(self, ask_environment: Callable[[], Mapping[str, str]], *, is_narrowed: bool) -> None:
        """Starts processes of an identity pass, if one is likely, before its cases are known.

        What fails here is tried again after the collection, and then reported.

        Args:
            ask_environment: names and values to store with every run, as far as the user's code knows them now.
            is_narrowed: whether few cases are likely.
        """
        if not expects_identity_pass(self._settings, self.collector):
            return
        try:
            self._environment = ask_environment()
        except Exception:
            # A conftest's hook may need what the collection finds, and is asked again after it.
            return
        try:
            self._begin()
            self.trees.check_out()
            self._early = EarlyProcesses(self.live_session(()))
            self._early.start(is_narrowed=is_narrowed)
        except NsightError:
            self.trees.remove()

    def give_up(self) -> None:
        """Ends and removes what has been started early, if nothing has been measured after that."""
        if self._has_begun and not self._has_measured:
            self._has_begun = False
            with self.trees.owned_folder:
                self._tidy_up()
            with contextlib.suppress(OSError):
                # It is not empty where the session has a result all the same.
                self.trees.folder.rmdir()

    @contextmanager
    def prepared(self, cases: Sequence[Case], environment: Mapping[str, str]) -> Iterator[None]:
        """The session's folder, and its trees as long as it measures.

        Args:
            cases: what to measure.
            environment: names and values to store with every run.

        Raises:
            NsightError: the folder or a tree cannot be made, or the tests are not in the revision's repository.
        """
        self._has_measured = True
        self._begin()
        try:
            self._environment = environment
            if self._early is not None:
                self._early.dismiss_outdated(self.live_session(()))
            self.trees.prepare(cases)
            yield
        finally:
            self._tidy_up()

    def source(self, plan: SessionPlan, watch: Callable[[Progress], None]) -> Source:
        """What runs the assignments of the loop.

        Args:
            plan: of the session.
            watch: called with the progress.
        """
        cases, session = plan.cases, self.live_session(plan.cases)
        timed: TimedSource = LiveSource(session, watch)
        if self.worker_gpus or any(case.ranks > 1 for case in cases):
            timed = ParallelSource(session, watch, cases, self.worker_gpus, [gpu.uuid for gpu in self.gpus])
        if not plan.has_identity_pass:
            if self._early is not None:
                # None of them may run on beside what is timed.
                self._early.close()
            return timed
        spare = (self._early or EarlyProcesses(session)).hand_over(session)
        return IdentifyingSource(IdentityPass(spare, session.limits, watch, get_ready=timed.get_ready), timed)

    def live_session(self, cases: Sequence[Case]) -> LiveSession:
        """What all workers have in common.

        Args:
            cases: those whose own time limits count, and whose files the commit should hold.
        """
        given = self._settings
        limits = {case.id: case.timeout_s for case in cases if case.timeout_s is not None}
        return LiveSession(
            id=self._id,
            recorded=self._recorded,
            commit=self.trees.commit_with(cases),
            folder=self.trees.folder,
            collector=self.collector,
            trees={tree.name: tree for tree in self.trees.all},
            rounds=given.rounds,
            # A save that fails must be repeatable without measuring again.
            keep=given.keep or given.save,
            canaries=given.canaries,
            limits=TimeLimits(given.timeout_s, limits),
            environment={**self._environment, "collector": self.collector.name},
            variables=self.worker_variables,
            script=place_first_pass(given.script, self.trees.folder),
        )

    def _begin(self) -> None:
        """Makes the session's folder, once."""
        if not self._has_begun:
            self.trees.begin()
            self._has_begun = True

    def _tidy_up(self) -> None:
        """Ends the processes that no identity pass has taken, and removes the worktree."""
        early, self._early = self._early, None
        try:
            if early is not None:
                early.close()
        finally:
            self.trees.remove()
