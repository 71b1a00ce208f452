"""The measurement behind the nsight fixture while a worker runs one case, and what all cases of a run share."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pytest

from pytest_nsight.collectors.base import Identifier, Recorder
from pytest_nsight.model.errors import name_error
from pytest_nsight.model.identity import READING, SHORT_OF_MEMORY, Identity
from pytest_nsight.model.values import CANARIES, Subject, Work
from pytest_nsight.protocol.job import OTHER_TREE, Assignment, Job
from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest_events import IdentifiedCase
from pytest_nsight.protocol.mark import find_partners, read_mark
from pytest_nsight.trace.rank_summary import is_rank_part
from pytest_nsight.worker.canaries import NAMES
from pytest_nsight.worker.device import current_device
from pytest_nsight.worker.extra_rounds import CanarySchedule, PairSchedule
from pytest_nsight.worker.fixture import LONGEST_LABEL
from pytest_nsight.worker.jax_programs import COMPILER, JaxPrograms
from pytest_nsight.worker.measured_body import WARMUP, MeasuredBody, RoundPlan
from pytest_nsight.worker.pacing import AUDIT, USUAL, StoppingRule
from pytest_nsight.worker.patched_imports import patch_imports
from pytest_nsight.worker.rounds import RoundRunner
from pytest_nsight.worker.tuner_trials import list_trial_patches

T = TypeVar("T")

_CALLED_AGAIN = (
    "The test passed, and failed when it was called again: it is measured as a whole, so its body runs many times "
    "with the same fixtures. Pass what is to be measured to the fixture nsight, which repeats nothing else."
)


class MeasuredRun:
    """The device, the recorder and the schedules of one run.

    Attributes:
        job: what the worker was started for.
        journal: records what is measured.
        identifier: says what launches are, where no times are measured; else None.
        is_device_lost: whether the device failed, so that nothing more can be measured.
    """

    def __init__(
        self,
        job: Job,
        journal: Journal,
        recorder: Recorder,
        barrier: Callable[[], None],
        identifier: Identifier | None = None,
    ) -> None:
        """Measures nothing yet.

        Args:
            job: what the worker was started for.
            journal: records what is measured.
            recorder: marks the rounds; in an identity pass the identifier does.
            barrier: waits for the other ranks.
            identifier: says what launches are; None where times are measured.
        """
        self.job = job
        self.journal = journal
        self.identifier = identifier
        self._recorder = recorder
        self._barrier = barrier
        self._runner: RoundRunner | None = None
        self.is_device_lost = False
        self._assignment = Assignment(())
        self._claims: dict[str, str] = {}
        self._pairs = PairSchedule((), {})
        self._canaries = CanarySchedule(0, 0)
        self._programs = JaxPrograms()
        self._memory_retries = 0
        patch_imports({COMPILER: self._programs.attach})
        if identifier is not None:
            patch_imports(list_trial_patches(identifier.pause))

    def assign(self, assignment: Assignment, items: list[pytest.Item]) -> None:
        """Plans the pairs and canaries of the cases in `items`, which are the assignment's, in its order."""
        self._assignment = assignment
        is_judged = self.job.tree != OTHER_TREE
        self._pairs = PairSchedule(assignment.cases, find_partners(items), measures=is_judged)
        self._canaries = CanarySchedule(len(assignment.cases), assignment.seed or 0)

    def start_runner(self) -> RoundRunner:
        """What runs the rounds of this process; the first call makes it and records the device.

        That is at the first measurement, when the test's own imports have chosen the device.
        """
        if self._runner is None:
            device = current_device(self.job.root_pid)
            self.journal.write(
                "device",
                name=device.name,
                board=device.board,
                environment={**self.job.environment, **device.environment},
            )
            if device.why_no_canaries and self.job.canaries:
                self.journal.write("canary_fault", case=f"{CANARIES}::{NAMES[0]}", text=device.why_no_canaries)
            # A pass without times needs no overhead, and measuring it takes memory that the case may notice.
            overhead_ns = None if self.identifier is None else 0
            self._runner = RoundRunner(
                device,
                self._recorder,
                self.journal,
                self._barrier,
                overhead_ns=overhead_ns,
                programs=self._programs,
            )
        return self._runner

    def identify(self, identifier: Identifier, body: MeasuredBody[T], claims: str) -> T:
        """Runs a few rounds of a case, without rests, and keeps what they launch beside what its marks claim."""
        case = body.case
        try:
            plan = replace(body.plan, rounds=identifier.rounds, rest_ns=0, cold_cache=False)
            runner = self.start_runner()
            result = runner.measure(replace(body, plan=plan))
            if self._is_beside_others and runner.device.count_memory_retries() > self._memory_retries:
                none = Identity(why_none=SHORT_OF_MEMORY, reading=READING)
                self.journal.write_identity(IdentifiedCase(case, none, claims))
            else:
                identifier.keep(case, body.label)
        finally:
            # A launch of this case must not count for the next one.
            identifier.forget()
        self._claims[case] = claims
        return result

    @property
    def _is_beside_others(self) -> bool:
        """Whether other processes may have taken the memory."""
        assigned = self._assignment
        return not assigned.repeats and (len(assigned.cases) > 1 or assigned.continues)

    def write_identities(self, *, is_last: bool) -> None:
        """Writes the identities of the kept cases once there are many, or all that are left after the last case."""
        identifier = self.identifier
        if identifier is not None and (is_last or identifier.is_due):
            for case, identity in identifier.identify().items():
                self.journal.write_identity(IdentifiedCase(case, identity, self._claims[case]))

    def choose_rule(self, case: str) -> StoppingRule:
        """When a case may end where the user gives no number of rounds."""
        return AUDIT if case in self._assignment.audited else USUAL

    def interleave(self, body: MeasuredBody[Any]) -> None:
        """Interleaves a case with the one that it claims to beat, or that claims to beat it."""
        # Ranks must do the same work, but each rank would decide alone whether there is room to keep a body.
        if self.job.ranks == 1:
            self._pairs.enter(body, self.start_runner(), self.journal)

    def synchronize(self) -> None:
        """Waits for the device, if one is measured; raises what its framework does where it has failed."""
        if self._runner is not None:
            self._runner.device.synchronize()

    def finish_case(self, case: str, *, is_last: bool) -> None:
        """Measures the canaries that are due after a case, once a test has shown on which device."""
        self._programs.forget()
        self.write_identities(is_last=is_last)
        if self._runner is None or self.is_device_lost:
            return
        if self.identifier is not None:
            # Garbage that holds memory would keep it from being given back.
            gc.collect()
            self._runner.device.isolate()
            self._memory_retries = self._runner.device.count_memory_retries()
            return
        self._pairs.leave(case, self._runner)
        if self.job.canaries and self._assignment.canaries and case in self._assignment.cases:
            cases = self._assignment.cases
            done = len(cases) if is_last else cases.index(case) + 1
            rounds = self.job.rounds or self._assignment.canary_rounds
            self._canaries.measure(self._runner, self.journal, done, rounds)


class CaseMeasurement:
    """Measures one case, at most once.

    Attributes:
        has_measured: whether it has.
        walls_ns: the host's duration of each of its rounds.
    """

    def __init__(self, run: MeasuredRun, item: pytest.Item) -> None:
        self._run = run
        self._item = item
        self._mark = read_mark(item)
        self.has_measured = False
        self._error = ""
        self.walls_ns: tuple[int, ...] = ()
        self._is_whole = False
        if self._mark.work is not None:
            self.declare(self._mark.work)

    def measure(
        self, body: Callable[..., T], setup: Callable[[], Any] | None, rounds: int | None, warmup: int | None
    ) -> T:
        """Measures the body, once in a test: a test has one baseline."""
        __tracebackhide__ = True
        if self.has_measured:
            raise RuntimeError(
                "this test has been measured already: call nsight(...) once in a test, and name parts of "
                'what it measures with nsight.range("...")'
            )
        self.has_measured = True
        # Ranks agree on the number of rounds beforehand: none may stop early.
        least = USUAL.fewest if self._run.job.ranks > 1 else None
        plan = RoundPlan(
            rounds=rounds or self._mark.rounds or self._run.job.rounds or least,
            warmup=next((n for n in (warmup, self._mark.warmup) if n is not None), WARMUP),
            rest_ns=self._mark.rest_ns,
            cold_cache=self._mark.cold_cache,
            rule=self._run.choose_rule(self._item.nodeid),
        )
        case, runner, identifier = self._item.nodeid, self._run.start_runner(), self._run.identifier
        measured = MeasuredBody(case, Subject(case).label[:LONGEST_LABEL], body, setup, plan)
        try:
            if identifier is not None:
                result = self._run.identify(identifier, measured, self._mark.claims)
            else:
                result = runner.measure(measured)
        except BaseException as error:
            self._error = name_error(error)
            raise
        self.walls_ns = runner.walls_ns
        if setup is None and not self._is_whole and identifier is None:
            self._run.interleave(measured)
        return result

    def check_end(self) -> None:
        """Fails a test that has gone on after what it measures raised: a part of the rounds is no measurement."""
        if self._error:
            pytest.fail(
                f"what this test measures raised {self._error}, and the test went on, so not all rounds were "
                "measured; measure only what raises nothing, and test what is to raise outside of nsight(...)",
                pytrace=False,
            )

    def measure_whole(self, body: Callable[[], T]) -> T:
        """Measures a whole test, which cannot run again once its fixtures are torn down.

        Args:
            body: the test, which has passed once.
        """
        self._is_whole = True
        return self.measure(partial(self._call_again, body), None, None, None)

    def _call_again(self, body: Callable[[], T]) -> T:
        try:
            return body()
        except pytest.xfail.Exception:
            raise
        except (Exception, pytest.fail.Exception):
            self._item.add_report_section("call", "nsight", _CALLED_AGAIN)
            raise

    def range(self, name: str) -> AbstractContextManager[None]:
        """Names a part of the round."""
        if self._run.job.ranks > 1 and is_rank_part(name):
            raise ValueError(f"nsight.range({name!r}): a test with ranks has rows of that name; choose another")
        return self._run.start_runner().part(name)

    def declare(self, work: Work) -> None:
        """Records what a round has to do; the last declaration counts."""
        self._run.journal.write_work(self._item.nodeid, work)
