"""One `pytest --nsight`: picks the source of runs, runs the loop over it, saves or judges, and publishes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from pytest_nsight.baselines import store
from pytest_nsight.baselines.failed_saves import load_failed_saves
from pytest_nsight.baselines.stored_counters import load_counters
from pytest_nsight.calibrate.pool import PoolWriter
from pytest_nsight.collectors.base import Collector, RecordingOptions
from pytest_nsight.collectors.lookup import choose
from pytest_nsight.collectors.machine import cpu_variables, gpus, measured_product
from pytest_nsight.controller.abandoned_sessions import begin_session
from pytest_nsight.controller.collection.collection_record import NOTHING_COLLECTED, Collected
from pytest_nsight.controller.conclusion import Conclusion, conclude
from pytest_nsight.controller.drill_down import Drill, explain_no_drill, profile_with_ncu
from pytest_nsight.controller.recorded_session import ReplaySource
from pytest_nsight.controller.session_folders import SESSIONS_FOLDER, make_session, name_session
from pytest_nsight.controller.session_plan import plan_replay, plan_session, without_needless_pass
from pytest_nsight.controller.session_result import SessionRecord
from pytest_nsight.controller.settings import Settings
from pytest_nsight.controller.trees.git_revision import Revision, describe_commit, refuse_nested, resolve
from pytest_nsight.controller.trees.revision_tree import Build, Tree, Workspace
from pytest_nsight.controller.workers.first_pass import place_first_pass
from pytest_nsight.controller.workers.gpu_assignment import choose_gpus
from pytest_nsight.controller.workers.identity_pass import IdentifyingSource, IdentityPass, TimedSource
from pytest_nsight.controller.workers.parallel_runs import ParallelSource
from pytest_nsight.controller.workers.progress import Progress
from pytest_nsight.controller.workers.time_limits import TimeLimits
from pytest_nsight.controller.workers.worker_run import LiveSource
from pytest_nsight.controller.workers.worker_starter import LiveSession
from pytest_nsight.gate.loop import Source, run_loop
from pytest_nsight.gate.state import GateState, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.units import count
from pytest_nsight.model.values import Case


class NsightSession:
    """Everything between the selected cases and their outcomes."""

    def __init__(self, settings: Settings, arguments: Sequence[str], where: Path) -> None:
        """Chooses the collector.

        Args:
            settings: what the user asked for.
            arguments: what the worker's pytest is called with.
            where: folder that pytest was started in.

        Raises:
            NsightError: nothing here can measure, or not as asked.
        """
        self._settings = settings
        self._arguments = arguments
        self._where = where
        self._id, self._recorded = name_session()
        self._collector: Collector | None = None
        self._notes: tuple[str, ...] = ()
        if settings.replay is None:
            options = RecordingOptions(
                settings.user_ranges, settings.visible_variables, settings.keep_report, settings.gpu_metrics
            )
            self._collector, self._notes = choose(settings.collector, options, strict=settings.strict)
        self._gpus = () if settings.replay else gpus()
        if settings.drill and not self._gpus:
            self._notes += explain_no_drill(settings.collector)
        self._worker_gpus = (
            () if settings.replay else choose_gpus(settings.workers, self._gpus, settings.most_workers)
        )
        self._revision: Revision | None = None
        if settings.against:
            self._revision = resolve(settings.root, settings.against, may_build=bool(settings.against_build))
        self._collected = NOTHING_COLLECTED
        self._environment: Mapping[str, str] = {}
        self._state: GateState | None = None
        self._stored: dict[str, StoredRuns] = {}
        self._claim: AbstractContextManager[object] = nullcontext()

    @property
    def folder(self) -> Path:
        """Where the session's files go."""
        return self._settings.root / SESSIONS_FOLDER / self._id

    @property
    def folder_name(self) -> str:
        """The folder as people read it."""
        return f"{SESSIONS_FOLDER}/{self._id}"

    def header(self) -> list[str]:
        """Lines for the head of pytest's output."""
        if self._collector is None:
            return [f"nsight: replaying {self._settings.replay}, baselines {self._settings.baselines}"]
        compared = f"baselines {self._settings.baselines}"
        if self._revision is not None:
            compared = f"against {self._revision.short} ({self._revision.name})"
        lines = [f"nsight: collector {self._collector.title}, {compared}"]
        if threads := self.worker_variables.get("OMP_NUM_THREADS"):
            lines.append(
                f"nsight: operators run on {count(int(threads), 'thread')} unless a test sets another number; "
                "--nsight-cpu-threads changes that"
            )
        if self._worker_gpus:
            others = "tests without the mark run here, one after the other"
            lines.append(f"nsight: {len(self._worker_gpus)} workers, each on a GPU of its own; {others}")
        return lines + [f"nsight: {note}" for note in self._notes]

    def add_notes(self, notes: Iterable[str]) -> None:
        """Adds sentences to those that the reports show."""
        self._notes += tuple(notes)

    @property
    def worker_variables(self) -> dict[str, str]:
        """Environment variables of workers whose CPU is what is measured."""
        if self._collector is None or not self._collector.times_cpu:
            return {}
        return cpu_variables(self._settings.cpu_threads, os.environ)

    def measure(
        self,
        cases: Sequence[Case],
        watch: Callable[[Progress], None],
        *,
        shuffle: bool,
        collected: Collected = NOTHING_COLLECTED,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> Conclusion:
        """Measures and judges, or saves.

        Args:
            cases: what to measure, in the order of collection.
            watch: called with the progress.
            shuffle: whether each run may take the cases in an order of its own.
            collected: what pytest collected.
            environment: names and values to store with every run.

        Raises:
            NsightError: the session as a whole cannot go on.
        """
        self._collected, self._environment = collected, environment
        given = self._settings
        self._state = GateState(plan_session(given, self._collector, cases, self._id, shuffle=shuffle))
        # An unreadable or unwritable file should be reported before minutes of measuring, not after.
        if given.pool is None:
            stored = self._load(measured_product())
            if not given.against and not given.replay:
                # Baselines of other cases are read when the session ends, too, to name the cases without a test.
                store.load(given.baselines, store.model_slug(measured_product()))
            self._state = replace(self._state, plan=without_needless_pass(self._state.plan, stored))
        if given.drill:
            load_counters(given.baselines, store.model_slug(measured_product()))
        if given.save and cases:
            store.check_writable(given.baselines)
        if given.shard or (self._collector and not cases):
            make_session(self.folder)
        if not cases:
            self._state = replace(self._state, device="" if given.shard else measured_product())
        elif given.replay:
            self._replay(self._state, given.replay)
        else:
            self._claim = begin_session(self.folder, given.baselines, keeps=given.keep)
            with self._trees() as trees:
                self._measure_live(self._state, watch, trees)
                if given.drill and not self._state.is_interrupted:
                    return self.conclude(is_whole=True, drill=self._make_drill(trees))
        if self._state.is_interrupted:
            raise KeyboardInterrupt
        return self.conclude(is_whole=True)

    def _replay(self, state: GateState, folder: Path) -> None:
        recording = ReplaySource(folder, for_save=self._settings.save)
        has_identities = recording.has_identities
        plan = plan_replay(self._settings, state.plan, recording.processes, has_identities=has_identities)
        self._state = run_loop(replace(state, plan=plan), recording, self._load, self._keep_state)

    def _measure_live(self, state: GateState, watch: Callable[[Progress], None], trees: Sequence[Tree]) -> None:
        source = self._live_source(state.plan, watch, trees)
        pool = self._settings.pool
        try:
            if pool is None:
                self._state = run_loop(state, source, self._load, self._keep_state)
                return
            policies = {case.id: case.policy for case in state.plan.cases}
            with PoolWriter(pool, policies, self._settings.pool_minutes) as writer:

                def has_time(latest: GateState) -> bool:
                    self._keep_state(latest)
                    return writer.add((*latest.accepted, *latest.canaries))

                self._state = run_loop(state, source, self._load, has_time)
                # The loop asks before each process; the last one's runs come after that.
                writer.add((*self._state.accepted, *self._state.canaries))
        finally:
            source.close()

    def _keep_state(self, state: GateState) -> bool:
        """Whatever ends the loop, what was measured before is shown and written."""
        self._state = state
        return True

    @contextmanager
    def _trees(self) -> Iterator[tuple[Tree, ...]]:
        """The trees to measure; a revision's tree is removed afterwards."""
        if self._revision is None:
            yield (Tree(self._where, tuple(self._arguments), tuple(sys.path)),)
            return
        workspace, given = Workspace(self._revision, self.folder), self._settings
        if self._state is not None:
            refuse_nested(self._revision, given.root, self._state.plan.case_ids)
        try:
            build = Build(given.against_build, given.timeout_s)
            yield workspace.prepare(given.root, given.ini, self._where, self._arguments, build)
        finally:
            workspace.remove()

    def _make_drill(self, trees: Sequence[Tree]) -> Drill:
        """What reads counters in these trees.

        Raises:
            NsightError: the stored counters cannot be read.
        """
        given, state = self._settings, self._state
        assert state is not None
        stored = {} if self._revision else load_counters(given.baselines, store.model_slug(state.device))
        return Drill(
            profile_with_ncu(
                self._live_session(state.plan.cases, trees),
                frozenset(case.id for case in state.plan.cases if case.ranks > 1),
            ),
            f"{self._revision.short} ({self._revision.name})" if self._revision else "",
            stored,
            state.plan.partners,
        )

    def conclude(self, *, is_whole: bool, drill: Drill | None = None) -> Conclusion:
        """Judges or saves what has been measured; an interrupted session saves nothing.

        Raises:
            NsightError: the baselines cannot be read.
        """
        state = self._state
        if state is None:
            return Conclusion()
        record = SessionRecord(self._id, self._recorded, self.folder, self._collector, self._notes)
        with self._claim:
            stored = self._load(state.device)
            return conclude(record, self._settings, state, stored, self._collected, is_whole=is_whole, drill=drill)

    def _live_source(self, plan: SessionPlan, watch: Callable[[Progress], None], trees: Sequence[Tree]) -> Source:
        cases = plan.cases
        session = self._live_session(cases, trees)
        timed: TimedSource = LiveSource(session, watch)
        if self._worker_gpus or any(case.ranks > 1 for case in cases):
            timed = ParallelSource(session, watch, cases, self._worker_gpus, [gpu.uuid for gpu in self._gpus])
        if not plan.has_identity_pass:
            return timed
        return IdentifyingSource(IdentityPass(session, watch, get_ready=timed.get_ready), timed)

    def _live_session(self, cases: Sequence[Case], trees: Sequence[Tree]) -> LiveSession:
        """What all workers have in common."""
        assert self._collector is not None
        return LiveSession(
            id=self._id,
            recorded=self._recorded,
            commit=describe_commit(self._settings.root),
            folder=self.folder,
            collector=self._collector,
            trees={tree.name: tree for tree in trees},
            rounds=self._settings.rounds,
            # A save that fails must be repeatable without measuring again.
            keep=self._settings.keep or self._settings.save,
            canaries=self._settings.canaries,
            limits=TimeLimits(
                self._settings.timeout_s,
                {case.id: case.timeout_s for case in cases if case.timeout_s is not None},
            ),
            environment={**self._environment, "collector": self._collector.name},
            variables=self.worker_variables,
            script=place_first_pass(self._settings.script, self.folder),
        )

    def _load(self, device: str) -> StoredRuns:
        """The stored runs of a product; none where it is not known, or where two trees are compared."""
        if not device or self._revision is not None or self._state is None:
            return StoredRuns()
        if device not in self._stored:
            folder, model = self._settings.baselines, store.model_slug(device)
            found = store.load(folder, model, self._state.plan.case_ids)
            self._stored[device] = StoredRuns(found.runs, load_failed_saves(folder, model))
        return self._stored[device]
