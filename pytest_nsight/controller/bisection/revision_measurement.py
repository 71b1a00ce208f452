"""Measures one case in commits of the repository: what it launches in one process, or its time in pairs of two.

Every commit has a worktree of its own below the session's folder; none is left when the measurement ends.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_nsight.collectors.base import Collector
from pytest_nsight.collectors.lookup import choose
from pytest_nsight.controller.abandoned_sessions import begin_session
from pytest_nsight.controller.session_folders import SESSIONS_FOLDER, name_session, prune_sessions
from pytest_nsight.controller.session_plan import identifies_launches
from pytest_nsight.controller.settings import Settings
from pytest_nsight.controller.trees.git_revision import Revision, refuse_submodules
from pytest_nsight.controller.trees.revision_tree import Build, Tree, Workspace
from pytest_nsight.controller.workers.identity_pass import IdentityPass
from pytest_nsight.controller.workers.identity_starter import IdentityStarter
from pytest_nsight.controller.workers.manifest_tail import Progress
from pytest_nsight.controller.workers.spare_workers import SpareWorkers
from pytest_nsight.controller.workers.time_limits import TimeLimits
from pytest_nsight.controller.workers.worker_run import LiveSource
from pytest_nsight.controller.workers.worker_starter import LiveSession
from pytest_nsight.gate.judging import judge_state
from pytest_nsight.gate.loop import run_loop
from pytest_nsight.gate.other_tree import OtherTree
from pytest_nsight.gate.state import GateState, SessionPlan
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.judge.subject_runs import LOOKS
from pytest_nsight.model.errors import NsightError
from pytest_nsight.model.identity import DEVICE_METRICS, Identity
from pytest_nsight.model.values import Case, RunSummary, Subject
from pytest_nsight.model.verdicts import Verdict
from pytest_nsight.processes.machine import cpu_variables
from pytest_nsight.protocol.job import OTHER_TREE, THIS_TREE, Assignment
from pytest_nsight.trace.process_record import ProcessEnd

_FIRST_PAIRS = LOOKS[1]
"""Two pairs may end a case that has not changed, but settle no side of a change that is known to be there."""

LAUNCH_ROUNDS = 3
"""Rounds that show what a commit launches, and whether it launches the same each time."""


class UnmeasurableError(NsightError):
    """A commit that does not build, import, have the case or pass it; the message says which."""


class AbsentCaseError(UnmeasurableError):
    """A commit that has no test of the case's id."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """How the user's pytest was started, as workers repeat it.

    Attributes:
        arguments: what a worker's pytest is called with.
        where: folder that pytest was started in.
        environment: names and values to store with every run.
    """

    arguments: Sequence[str]
    where: Path
    environment: Mapping[str, str]


class RevisionMeasurement:
    """A session whose processes measure one case in several commits. Leaving the context removes all worktrees."""

    def __init__(
        self, settings: Settings, case: Case, invocation: Invocation, watch: Callable[[Progress], None]
    ) -> None:
        """Chooses the collector.

        Args:
            settings: what the user asked for.
            case: what to measure.
            invocation: how the user's pytest was started.
            watch: called with the progress.

        Raises:
            NsightError: nothing here can measure, or not as asked.
        """
        self._settings, self._case, self._invocation, self._watch = settings, case, invocation, watch
        self._id, self._recorded = name_session()
        recorded = replace(settings.recording, keep_report=False, gpu_metrics=False)
        self._collector: Collector
        self._collector, self.notes = choose(settings.collector, recorded, strict=settings.strict)
        self._folder = settings.root / SESSIONS_FOLDER / self._id
        self._trees: dict[str, tuple[Workspace, Tree]] = {}
        self._started = self._identified = 0
        self._identifies = case.policy.metric in DEVICE_METRICS and identifies_launches(settings, self._collector)
        self._held = ExitStack()

    @property
    def title(self) -> str:
        """The collector as people read it."""
        return self._collector.title

    def __enter__(self) -> RevisionMeasurement:  # noqa: PYI034 - typing.Self needs Python 3.11
        """Makes the session's folder, after removing what killed sessions have left.

        Raises:
            CollectorError: it cannot be written.
        """
        self._held.enter_context(begin_session(self._folder, self._settings.baselines, keeps=False))
        self._held.callback(prune_sessions, self._folder.parent)
        self._held.callback(self.keep_only, ())
        return self

    def __exit__(self, *_: object) -> None:
        """Removes all worktrees."""
        self._held.close()

    def keep_only(self, commits: Collection[str]) -> None:
        """Removes the worktrees of all other commits."""
        for commit in [one for one in self._trees if one not in commits]:
            self._trees[commit][0].remove()
            del self._trees[commit]
            with contextlib.suppress(OSError):
                # The log of a build may be in it.
                (self._folder / commit).rmdir()

    def measure_launches(self, revision: Revision) -> tuple[RunSummary, ...]:
        """What a commit launches: the run of one process, without canaries and in few rounds.

        Raises:
            AbsentCaseError: the commit has no test of this id.
            UnmeasurableError: the commit cannot be measured for another reason.
        """
        case = self._case.id
        live = self._live_session({OTHER_TREE: self._tree(revision)}, LAUNCH_ROUNDS, canaries=False)
        source = LiveSource(live, self._watch, started=self._started)
        try:
            (process,) = source.execute(Assignment((case,), tree=OTHER_TREE))
        except NsightError as error:
            raise UnmeasurableError(str(error)) from None
        finally:
            source.close()
            self._started = source.started
        if process.end is ProcessEnd.INTERRUPTED:
            raise KeyboardInterrupt
        if process.end is ProcessEnd.FAILED:
            raise UnmeasurableError(process.failure)
        found = OtherTree().add(process.manifest, [case], process.summaries, process.problems)
        if runs := found.runs_of(Subject(case)):
            return runs
        if found.has_no_test(case):
            raise AbsentCaseError(f"the test {case} is not in {revision.short}")
        raise UnmeasurableError(found.explain_absent(Subject(case)))

    def identify(self, revision: Revision) -> Identity:
        """What a commit launches, exactly: the machine code, shape and arguments of each launch of a round.

        It has no digest, and says why, where launches cannot be identified here or do not decide the time.

        Raises:
            UnmeasurableError: the commit cannot be measured.
        """
        if not self._identifies:
            return Identity()
        case = self._case.id
        live = self._live_session({OTHER_TREE: self._tree(revision)}, None, canaries=False)
        starter = IdentityStarter(live, started=self._identified)
        source = IdentityPass(SpareWorkers(starter.start, self._collector), live.limits, self._watch)
        try:
            (process,) = source.execute(Assignment((case,), tree=OTHER_TREE, identifies=True))
        finally:
            source.close()
            self._identified = starter.started
        if process.end is ProcessEnd.INTERRUPTED:
            raise KeyboardInterrupt
        why = process.manifest.identity_fault or process.failure or "the test did not pass"
        return process.manifest.identities.get(case, Identity(why_none=why))

    def compare(self, before: Revision, now: Revision, is_settled: Callable[[Verdict], bool]) -> Verdict:
        """The gate's verdict on one commit compared with another, from processes of both in alternation.

        Args:
            before: what stands in place of a baseline.
            now: what is judged.
            is_settled: whether no further pairs are needed after a look.

        Raises:
            UnmeasurableError: one of the commits cannot be measured.
        """
        trees = {OTHER_TREE: self._tree(before), THIS_TREE: replace(self._tree(now), name=THIS_TREE)}
        source = LiveSource(
            self._live_session(trees, self._settings.rounds, canaries=self._settings.canaries),
            self._watch,
            started=self._started,
        )
        state = GateState(
            SessionPlan((self._case,), runs=_FIRST_PAIRS, is_judged=True, is_paired=True, reruns_inconclusive=True)
        )

        def goes_on(latest: GateState) -> bool:
            if not _is_at_look(latest):
                return True
            verdict = self._find_verdict(latest)
            return verdict is None or not is_settled(verdict)

        try:
            state = run_loop(state, source, lambda _: StoredRuns(), goes_on)
        except NsightError as error:
            raise UnmeasurableError(str(error)) from None
        finally:
            source.close()
            self._started = source.started
        if state.is_interrupted:
            raise KeyboardInterrupt
        verdict = self._find_verdict(state)
        if verdict is None or verdict.now_ns is None:
            case = self._case.id
            reason = state.problems.get(case) or state.other.absent.get(case, "")
            raise UnmeasurableError(reason or f"no run of {now.short} passed in pairs with {before.short}")
        return verdict

    def _find_verdict(self, state: GateState) -> Verdict | None:
        subject = Subject(self._case.id)
        found = judge_state(state, StoredRuns())
        return next((verdict for verdict in found if verdict.subject == subject), None)

    def _tree(self, revision: Revision) -> Tree:
        """The commit's worktree, made and built at its first use.

        Raises:
            UnmeasurableError: it cannot be made or built.
        """
        if revision.commit not in self._trees:
            given = self._settings
            workspace = Workspace(revision, self._folder / revision.commit)
            try:
                if not given.against_build:
                    refuse_submodules(revision)
                build = Build(given.against_build, given.timeout_s)
                where, arguments = self._invocation.where, self._invocation.arguments
                _, tree = workspace.prepare(given.root, given.ini, where, arguments, build)
            except NsightError as error:
                workspace.remove()
                raise UnmeasurableError(str(error)) from None
            except BaseException:
                workspace.remove()
                raise
            self._trees[revision.commit] = (workspace, tree)
        return self._trees[revision.commit][1]

    def _live_session(self, trees: Mapping[str, Tree], rounds: int | None, *, canaries: bool) -> LiveSession:
        times_cpu = self._collector.times_cpu
        case, given = self._case, self._settings
        limits = {case.id: case.timeout_s} if case.timeout_s is not None else {}
        return LiveSession(
            id=self._id,
            recorded=self._recorded,
            commit="",
            folder=self._folder,
            collector=self._collector,
            trees=trees,
            rounds=rounds,
            keep=False,
            canaries=canaries,
            environment={**self._invocation.environment, "collector": self._collector.name},
            limits=TimeLimits(given.timeout_s, limits),
            variables=cpu_variables(given.cpu_threads, os.environ) if times_cpu else {},
        )


def _is_at_look(state: GateState) -> bool:
    """Whether a look has just asked for further pairs, and none of them has begun."""
    first = state.pending[0].run
    return first - 1 in LOOKS[1:] and len(state.pending) == 2 * (state.planned_runs - first + 1)
