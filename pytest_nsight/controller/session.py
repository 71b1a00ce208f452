"""One `pytest --nsight`: picks the source of runs, runs the loop over it, saves or judges, and publishes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from pytest_nsight.baselines import store
from pytest_nsight.baselines.failed_saves import load_failed_saves
from pytest_nsight.baselines.stored_counters import load_counters
from pytest_nsight.calibrate.pool import PoolWriter
from pytest_nsight.collectors.base import Collector
from pytest_nsight.controller.collection.collection_record import NOTHING_COLLECTED, Collected
from pytest_nsight.controller.conclusion import Conclusion, conclude
from pytest_nsight.controller.drill_down import Drill, explain_no_drill, profile_with_ncu
from pytest_nsight.controller.live_runs import LiveRuns
from pytest_nsight.controller.recorded_session import ReplaySource
from pytest_nsight.controller.session_folders import SESSIONS_FOLDER, make_session, name_session
from pytest_nsight.controller.session_plan import plan_replay, plan_session, without_needless_pass
from pytest_nsight.controller.session_result import SessionRecord
from pytest_nsight.controller.settings import Settings
from pytest_nsight.controller.workers.manifest_tail import Progress
from pytest_nsight.gate.loop import Source, run_loop
from pytest_nsight.gate.state import GateState
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.units import count
from pytest_nsight.model.values import Case
from pytest_nsight.processes.machine import measured_product


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
        self._id, self._recorded = name_session()
        self._runs: LiveRuns | None = None
        if settings.replay is None:
            self._runs = LiveRuns(settings, (self._id, self._recorded), arguments, where)
        self._notes = self._runs.notes if self._runs is not None else ()
        if settings.drill and not (self._runs is not None and self._runs.gpus):
            self._notes += explain_no_drill(settings.collector)
        self._notes += _describe_absent_baselines(settings)
        self._collected = NOTHING_COLLECTED
        self._state: GateState | None = None
        self._stored: dict[str, StoredRuns] = {}
        self._replayed = ""

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
        runs = self._runs
        if runs is None:
            return [f"nsight: replaying {self._settings.replay}, baselines {self._settings.baselines}"]
        compared = f"baselines {self._settings.baselines}"
        if (revision := runs.trees.revision) is not None:
            compared = f"against {revision.short} ({revision.name})"
        lines = [f"nsight: collector {runs.collector.title}, {compared}"]
        if threads := self.worker_variables.get("OMP_NUM_THREADS"):
            lines.append(
                f"nsight: operators run on {count(int(threads), 'thread')} unless a test sets another number; "
                "--nsight-cpu-threads changes that"
            )
        if runs.worker_gpus:
            others = "tests without the mark run here, one after the other"
            lines.append(f"nsight: {len(runs.worker_gpus)} workers, each on a GPU of its own; {others}")
        return lines + [f"nsight: {note}" for note in self._notes]

    def add_notes(self, notes: Iterable[str]) -> None:
        """Adds sentences to those that the reports show."""
        self._notes += tuple(notes)

    @property
    def worker_variables(self) -> dict[str, str]:
        """Environment variables of all workers, see `LiveRuns.worker_variables`."""
        return self._runs.worker_variables if self._runs is not None else {}

    @property
    def _collector(self) -> Collector | None:
        """What records the session, None for a replay."""
        return self._runs.collector if self._runs is not None else None

    def start_early(self, ask_environment: Callable[[], Mapping[str, str]], *, is_narrowed: bool) -> None:
        """Starts what takes long before the tests are collected, see `LiveRuns.start_early`."""
        if self._runs is not None:
            self._runs.start_early(ask_environment, is_narrowed=is_narrowed)

    def give_up(self) -> None:
        """Ends what has been started early, if nothing is measured."""
        if self._runs is not None:
            self._runs.give_up()

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
        self._collected = collected
        given, runs = self._settings, self._runs
        self._state = GateState(plan_session(given, self._collector, cases, self._id, shuffle=shuffle))
        self._check_stored(self._state)
        if not cases:
            self.give_up()
            self._state = replace(self._state, device="" if given.shard else measured_product())
        if given.shard or (runs is not None and not cases):
            make_session(self.folder)
        if not cases:
            return self.conclude(is_whole=True)
        if given.replay:
            self._replay(self._state, given.replay)
        elif runs is not None:
            with runs.prepared(cases, environment):
                self._measure_live(self._state, runs.source(self._state.plan, watch))
                if given.drill and not self._state.is_interrupted:
                    return self.conclude(is_whole=True, drill=self._make_drill(runs))
        if self._state.is_interrupted:
            raise KeyboardInterrupt
        return self.conclude(is_whole=True)

    def _check_stored(self, state: GateState) -> None:
        """Reports an unreadable or unwritable file before minutes of measuring, not after.

        Raises:
            NsightError: there is one.
        """
        given = self._settings
        if given.pool is None:
            stored = self._load(measured_product())
            if not given.against and not given.replay:
                # Baselines of other cases are read when the session ends, too, to name the cases without a test.
                store.load(given.baselines, store.model_slug(measured_product()))
            self._state = replace(state, plan=without_needless_pass(state.plan, stored))
        if given.drill:
            load_counters(given.baselines, store.model_slug(measured_product()))
        if given.save and state.plan.cases:
            store.check_writable(given.baselines)

    def _replay(self, state: GateState, folder: Path) -> None:
        recording = ReplaySource(folder, for_save=self._settings.save)
        self._stored.clear()
        self._replayed = recording.session
        has_identities = recording.has_identities
        plan = plan_replay(self._settings, state.plan, recording.processes, has_identities=has_identities)
        self._state = run_loop(replace(state, plan=plan), recording, self._load, self._keep_state)

    def _measure_live(self, state: GateState, source: Source) -> None:
        pool = self._settings.pool
        try:
            if pool is None:
                self._state = run_loop(state, source, self._load, self._keep_state)
                return
            policies = {case.id: case.policy for case in state.plan.cases}
            with PoolWriter(pool.path, policies, pool.minutes) as writer:

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

    def _make_drill(self, runs: LiveRuns) -> Drill:
        """What reads counters in the trees.

        Raises:
            NsightError: the stored counters cannot be read.
        """
        given, state, revision = self._settings, self._state, runs.trees.revision
        assert state is not None
        return Drill(
            profile_with_ncu(
                runs.live_session(state.plan.cases),
                frozenset(case.id for case in state.plan.cases if case.ranks > 1),
            ),
            f"{revision.short} ({revision.name})" if revision else "",
            {} if revision else load_counters(given.baselines, store.model_slug(state.device)),
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
        record = SessionRecord(
            self._id, self._recorded, self.folder, self._settings, self._collector, self._collected, self._notes
        )
        with self._runs.trees.owned_folder if self._runs is not None else nullcontext():
            stored = self._load(state.device)
            return conclude(record, state, stored, is_whole=is_whole, drill=drill)

    def _load(self, device: str) -> StoredRuns:
        """The stored runs of a product; none where it is not known, or where two trees are compared."""
        if not device or self._settings.against or self._state is None:
            return StoredRuns()
        if device not in self._stored:
            folder, model = self._settings.baselines, store.model_slug(device)
            found = store.load(folder, model, self._state.plan.case_ids)
            stored = StoredRuns(found.runs, load_failed_saves(folder, model))
            self._stored[device] = stored.without_session(self._replayed) if self._replayed else stored
        return self._stored[device]


def _describe_absent_baselines(given: Settings) -> tuple[str, ...]:
    """A sentence where the command line names a folder of baselines to compare with that is not there."""
    compares = not (given.save or given.against or given.shard or given.pool)
    if not compares or not given.baselines_option or given.baselines.exists():
        return ()
    sentence = (
        f"--nsight-baselines names {given.baselines}, which does not exist, so nothing can be compared; correct "
        "the path, or save there first with --nsight-save"
    )
    return (sentence,)
