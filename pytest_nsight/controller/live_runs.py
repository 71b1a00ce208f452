"""What a session measures with: its collector, its GPUs, its folder, the trees, and the sources of its runs.

The processes that identify launches start before pytest collects the tests: they import what this process imports,
which takes seconds.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from pytest_nsight.baselines import store
from pytest_nsight.collectors.base import RecordingOptions
from pytest_nsight.collectors.lookup import choose
from pytest_nsight.collectors.machine import cpu_variables, gpus, measured_product
from pytest_nsight.controller.abandoned_sessions import begin_session
from pytest_nsight.controller.session_folders import SESSIONS_FOLDER
from pytest_nsight.controller.session_plan import identifies_launches
from pytest_nsight.controller.settings import Settings
from pytest_nsight.controller.trees.git_revision import (
    Revision,
    describe_commit,
    describe_same_tree,
    refuse_nested,
    resolve,
)
from pytest_nsight.controller.trees.revision_tree import Build, Tree, Workspace
from pytest_nsight.controller.workers.first_pass import place_first_pass
from pytest_nsight.controller.workers.gpu_assignment import choose_gpus
from pytest_nsight.controller.workers.identity_pass import IdentifyingSource, IdentityPass, TimedSource
from pytest_nsight.controller.workers.identity_shares import count_early
from pytest_nsight.controller.workers.identity_starter import IdentityStarter
from pytest_nsight.controller.workers.parallel_runs import ParallelSource
from pytest_nsight.controller.workers.progress import Progress
from pytest_nsight.controller.workers.spare_workers import SpareWorkers
from pytest_nsight.controller.workers.time_limits import TimeLimits
from pytest_nsight.controller.workers.worker_run import LiveSource
from pytest_nsight.controller.workers.worker_starter import LiveSession
from pytest_nsight.gate.loop import Source
from pytest_nsight.gate.state import SessionPlan
from pytest_nsight.model.errors import NsightError
from pytest_nsight.model.values import Case


class LiveRuns:
    """The part of a session that a replay does not have.

    Attributes:
        collector: records the workers.
        notes: sentences on what it cannot do here.
        gpus: the visible GPUs.
        worker_gpus: CUDA_VISIBLE_DEVICES of each of several workers; empty for one worker that sees all GPUs.
        revision: what --nsight-against names, None without it.
        owned_folder: the session's; whoever leaves the context gives it up.
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
        self._settings, self._arguments, self._where = settings, arguments, where
        self._id, self._recorded = name
        self._folder = settings.root / SESSIONS_FOLDER / self._id
        options = RecordingOptions(
            settings.user_ranges, settings.visible_variables, settings.keep_report, settings.gpu_metrics
        )
        self.collector, self.notes = choose(settings.collector, options, strict=settings.strict)
        self.gpus = gpus()
        self.worker_gpus = choose_gpus(settings.workers, self.gpus, settings.most_workers)
        self.revision: Revision | None = None
        self._workspace: Workspace | None = None
        if settings.against:
            self.revision = resolve(settings.root, settings.against, may_build=bool(settings.against_build))
            self._workspace = Workspace(self.revision, self._folder)
            if self._commit == self.revision.commit:
                self.notes += (describe_same_tree(self.revision),)
        self.owned_folder: AbstractContextManager[object] = nullcontext()
        self._has_begun = self._has_measured = False
        self._held = ExitStack()
        self._trees: tuple[Tree, ...] = ()
        self._environment: Mapping[str, str] = MappingProxyType({})
        self._early: tuple[IdentityStarter, SpareWorkers] | None = None

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
        if not self._is_pass_likely():
            return
        try:
            self._environment = ask_environment()
        except Exception:
            # A conftest's hook may need what the collection finds, and is asked again after it.
            return
        try:
            self._begin()
            if self._workspace is not None:
                self._workspace.check_out(self._settings.root, self._where)
            self._trees = self._describe_trees()
            starter = IdentityStarter(self.live_session(()))
            spare = SpareWorkers(starter.start, self.collector)
            self._held.callback(spare.close)
            self._early = starter, spare
            number = count_early(len(os.sched_getaffinity(0)), is_narrowed=is_narrowed)
            spare.start_early([tree.name for tree in self._trees], number)
        except NsightError:
            if self._workspace is not None:
                self._workspace.remove()

    def give_up(self) -> None:
        """Ends and removes what has been started early, if nothing has been measured after that."""
        if self._has_begun and not self._has_measured:
            self._has_begun, self._early = False, None
            with self.owned_folder:
                self._held.close()
            with contextlib.suppress(OSError):
                # It is not empty where the session has a result all the same.
                self._folder.rmdir()

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
        with self._held:
            self._begin()
            if self._early is not None and environment != self._environment:
                self._early[1].dismiss_early()
            self._environment = environment
            if self._workspace is None:
                self._trees = self._describe_trees()
            else:
                given = self._settings
                assert self.revision is not None
                refuse_nested(self.revision, given.root, [case.id for case in cases])
                build = Build(given.against_build, given.timeout_s)
                self._trees = self._workspace.prepare(given.root, given.ini, self._where, self._arguments, build)
            yield

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
                self._early[1].close()
            return timed
        if self._early is None:
            spare = SpareWorkers(IdentityStarter(session).start, self.collector)
        else:
            starter, spare = self._early
            starter.use(session)
        return IdentifyingSource(IdentityPass(spare, session.limits, watch, get_ready=timed.get_ready), timed)

    def live_session(self, cases: Sequence[Case]) -> LiveSession:
        """What all workers have in common.

        Args:
            cases: those whose own time limits count.
        """
        given = self._settings
        limits = {case.id: case.timeout_s for case in cases if case.timeout_s is not None}
        return LiveSession(
            id=self._id,
            recorded=self._recorded,
            commit=self._commit,
            folder=self._folder,
            collector=self.collector,
            trees={tree.name: tree for tree in self._trees},
            rounds=given.rounds,
            # A save that fails must be repeatable without measuring again.
            keep=given.keep or given.save,
            canaries=given.canaries,
            limits=TimeLimits(given.timeout_s, limits),
            environment={**self._environment, "collector": self.collector.name},
            variables=self.worker_variables,
            script=place_first_pass(given.script, self._folder),
        )

    @cached_property
    def _commit(self) -> str:
        return describe_commit(self._settings.root)

    def _is_pass_likely(self) -> bool:
        """Whether an identity pass will come, in trees that are there before the tests are collected."""
        given = self._settings
        if given.against_build or given.affected or not identifies_launches(given, self.collector):
            return False
        # A check has one where there is something to compare with.
        stored = given.baselines / store.model_slug(measured_product())
        return given.save or bool(given.against) or stored.is_dir()

    def _begin(self) -> None:
        """Makes the session's folder and takes its lock, once."""
        if self._has_begun:
            return
        self.owned_folder = begin_session(self._folder, self._settings.baselines, keeps=self._settings.keep)
        self._has_begun = True
        if self._workspace is not None:
            self._held.callback(self._workspace.remove)

    def _describe_trees(self) -> tuple[Tree, ...]:
        if self._workspace is None:
            return (Tree(self._where, tuple(self._arguments), tuple(sys.path)),)
        return self._workspace.describe(self._settings.root, self._settings.ini, self._where, self._arguments)
