"""What the loop knows: the plan of a session, and what its processes have measured so far. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_nsight.gate.failed_tries import FailedTry
from pytest_nsight.gate.other_tree import OtherTree
from pytest_nsight.model.gpu_samples import MetricMeans
from pytest_nsight.model.identity import Identity
from pytest_nsight.model.roofline import Limits, measure_limits
from pytest_nsight.model.round_timeline import RoundTimeline
from pytest_nsight.model.units import name_cases, name_some
from pytest_nsight.model.values import Case, InterleavedPairs, RunSummary
from pytest_nsight.protocol.job import Assignment
from pytest_nsight.protocol.manifest_events import CaseWarning, LeakedState
from pytest_nsight.protocol.phase_reports import last_attempt

_MOST_SHOWN = 3

SerialisedReport = Mapping[str, Any]
"""A report of one phase of a test, as pytest serialises it."""


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """What a session measures, fixed before its first run.

    Attributes:
        cases: all of them, in the order of collection.
        runs: runs of every case before the first look.
        is_judged: whether looks follow, in which suspects get more runs.
        is_paired: whether each run of this tree has one of another tree beside it.
        reruns_inconclusive: whether a case that more runs may show to be unchanged is a suspect, too.
        seed: shuffles the cases of each run, so that what one case leaves behind (a warm board, a fragmented
            allocator) becomes noise instead of bias; None keeps their order.
        has_identity_pass: whether the launches of all cases are identified before the first run.
        skips_identical: whether a case passes untimed if its launches equal those that it is compared with.
        audit_seed: draws the cases that are timed all the same.
        times_all_identical: whether all recorded cases are timed, because a replay judges all that was recorded.
        confirming: processes of a few random cases each, after all runs, as looks have them for suspects.
    """

    cases: tuple[Case, ...]
    runs: int
    is_judged: bool = False
    is_paired: bool = False
    reruns_inconclusive: bool = False
    seed: str | None = None
    has_identity_pass: bool = False
    skips_identical: bool = False
    audit_seed: str = ""
    times_all_identical: bool = False
    confirming: int = 0

    @property
    def case_ids(self) -> tuple[str, ...]:
        """Node ids, in the order of collection."""
        return tuple(case.id for case in self.cases)

    @property
    def partners(self) -> Mapping[str, str]:
        """Case -> the case that it claims to beat."""
        claims = ((case.id, case.policy.faster_than) for case in self.cases)
        return {case: partner for case, partner in claims if partner is not None}


@dataclass(frozen=True, slots=True)
class PlannedProcess:
    """A process that is still to be started.

    Attributes:
        run: number of the run that it belongs to, from 1; two trees that are compared share it.
        assignment: what it measures.
    """

    run: int
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class GateState:
    """Everything that the loop knows between two processes; it can be pickled and continued from.

    Attributes:
        plan: of the session.
        pending: processes to start, the next one first; empty before the first plan, and when all is done.
        planned_runs: runs that every case has had or will have had with the pending ones.
        summaries: one per subject and run of this tree.
        reports: case -> serialised reports, of the first run or of the first that failed.
        problems: case -> why there is nothing to judge.
        failed_tries: case -> its last try, where that failed and another one follows.
        canaries: one summary per canary and run.
        faulty_canary: the first canary that could not be measured, "" if all could.
        pairs: case -> its rounds, interleaved with those of the case that it claims to beat.
        other: what a revision's processes measured beside this tree.
        notes: sentences about the session as a whole, each once.
        device: product name of what was measured, "" before the first measurement.
        environment: of the first run, with the boards of all.
        bytes_per_s: memory bandwidth of the GPU by the recording's own account, None if it has none.
        seeds: run id -> seed of the order of its cases.
        leaked_state: case -> what it left changed in its process.
        warnings: case -> what it warned of in this tree, each warning once.
        failures_alone: processes in a row that measured one case alone and failed.
        timelines: case -> a round of its newest run.
        metrics: case -> sampled counters of its board in its newest run; empty where nothing was sampled.
        is_identified: whether the identity pass is over.
        identities: case -> what its rounds launch.
        claims: case -> what it claims, as text, in the tree that the identity pass measured.
        identity_reports: case -> serialised reports of the identity pass.
        proven: case -> what its launches are identical with, where it needs no timing.
        is_interrupted: whether the user ended the session.
        is_exhausted: whether the source has no more runs.
    """

    plan: SessionPlan
    pending: tuple[PlannedProcess, ...] = ()
    planned_runs: int = 0
    summaries: tuple[RunSummary, ...] = ()
    reports: Mapping[str, tuple[SerialisedReport, ...]] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    failed_tries: Mapping[str, FailedTry] = field(default_factory=dict)
    canaries: tuple[RunSummary, ...] = ()
    faulty_canary: str = ""
    pairs: Mapping[str, tuple[InterleavedPairs, ...]] = field(default_factory=dict)
    other: OtherTree = field(default_factory=OtherTree)
    notes: tuple[str, ...] = ()
    device: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    bytes_per_s: float | None = None
    seeds: Mapping[str, int] = field(default_factory=dict)
    leaked_state: Mapping[str, LeakedState] = field(default_factory=dict)
    warnings: Mapping[str, tuple[CaseWarning, ...]] = field(default_factory=dict)
    failures_alone: int = 0
    timelines: Mapping[str, RoundTimeline] = field(default_factory=dict)
    metrics: Mapping[str, MetricMeans] = field(default_factory=dict)
    is_identified: bool = False
    identities: Mapping[str, Identity] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)
    identity_reports: Mapping[str, tuple[SerialisedReport, ...]] = field(default_factory=dict)
    proven: Mapping[str, str] = field(default_factory=dict)
    is_interrupted: bool = False
    is_exhausted: bool = False

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Board -> what the canaries reached on it."""
        return measure_limits(self.canaries)

    @property
    def accepted(self) -> tuple[RunSummary, ...]:
        """The summaries of cases that passed and whose record is complete."""
        passed = {case for case in self.reports if case not in self.problems and self.has_passed(case)}
        return tuple(summary for summary in self.summaries if summary.subject.case in passed)

    def has_passed(self, case: str) -> bool:
        """Whether every phase of the case passed."""
        reports = last_attempt(self.reports.get(case, ()))
        return bool(reports) and all(_has_passed(report) for report in reports)

    def with_notes(self, *sentences: str) -> GateState:
        """The state with these sentences added, each once and without empty ones."""
        fresh = dict.fromkeys(sentence for sentence in sentences if sentence and sentence not in self.notes)
        return replace(self, notes=(*self.notes, *fresh)) if fresh else self

    def with_problems(self, problems: Mapping[str, str]) -> GateState:
        """The state with reasons why cases cannot be judged; the first reason of a case stays."""
        return replace(self, problems={**problems, **self.problems}) if problems else self


def describe_leaked_state(leaked: Mapping[str, LeakedState]) -> str:
    """A sentence on the cases that left state changed in their process, "" if there are none."""
    # Cases run in random order; two sessions of the same tests say the same.
    ordered = sorted(leaked.values(), key=lambda one: one.case)
    if not ordered:
        return ""
    cases = name_some((f"{name_cases([one.case])} ({name_some(one.names)})" for one in ordered), _MOST_SHOWN, "; ")
    stuck = sorted({name for one in leaked.values() for name in one.stuck})
    end = f", except {name_some(stuck)}, which cannot be put back and may count in later cases" if stuck else ""
    return (
        f"tests changed the state of their process and left it so: {cases}. It was put back before the next "
        f"case{end}; let the test or a fixture of it do so, for pytest alone does not"
    )


def _has_passed(report: SerialisedReport) -> bool:
    """Whether a phase passed; an expected failure that passed counts, because its verdict may be that failure."""
    return report["outcome"] == "passed" or is_strict_xpass(report.get("longrepr"))


def is_strict_xpass(longrepr: object) -> bool:
    """Whether a report's text says that a test passed which was expected to fail, strictly."""
    return str(longrepr).startswith("[XPASS(strict)]")
