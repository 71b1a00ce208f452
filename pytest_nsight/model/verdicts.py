"""What a session concludes: verdicts, the numbers behind them, and the session as a whole. All inert values."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pytest_nsight.model.comparison import Comparison
from pytest_nsight.model.gpu_samples import MetricMeans
from pytest_nsight.model.identity import Identity
from pytest_nsight.model.roofline import Datasheet, Limits
from pytest_nsight.model.round_timeline import RoundTimeline
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.values import RunSummary, Subject


class VerdictKind(enum.Enum):
    """The verdicts, worst first."""

    STRUCTURE = "STRUCTURE"
    REGRESSION = "REGRESSION"
    CLAIM = "CLAIM"
    ENVIRONMENT = "ENVIRONMENT"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_BASELINE = "NO_BASELINE"
    IMPROVEMENT = "IMPROVEMENT"
    UNCHANGED = "UNCHANGED"
    IDENTICAL = "IDENTICAL"
    """Proven to launch what it is compared with: not timed, or as an audit, or as a part of a case that differs."""

    NOT_SAVED = "NOT_SAVED"
    SAVED = "SAVED"
    MEASURED = "MEASURED"
    """By a shard: all shards together get the verdict."""

    @property
    def fails(self) -> bool:
        """Whether a test with this verdict always fails."""
        return self in (VerdictKind.STRUCTURE, VerdictKind.REGRESSION, VerdictKind.CLAIM)

    @property
    def fails_strict(self) -> bool:
        """Whether a test with this verdict fails under --nsight-strict."""
        return self.fails or self in (
            VerdictKind.ENVIRONMENT,
            VerdictKind.INCONCLUSIVE,
            VerdictKind.NO_BASELINE,
        )

    def fails_in(self, *, strict: bool) -> bool:
        """Whether a test with this verdict fails in a session that is strict, or not."""
        return self.fails_strict if strict else self.fails


@dataclass(frozen=True, slots=True)
class ShapeChange:
    """One line of a structure difference.

    Attributes:
        shape: what is launched.
        before: launches per round in the baseline.
        now: launches per round now.
    """

    shape: Shape
    before: int
    now: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says of one subject.

    Attributes:
        subject: whose verdict it is.
        kind: the verdict.
        sentence: one line for a person: what happened, with the values, and what to do.
        now_ns: the typical time of the new runs in ns, as `typical_ns` of judge/location.py has it; None if nothing
            was measured.
        comparison: the numbers, None where nothing was compared on time.
        changes: how the structure changed, empty where it did not.
        metric: the gated duration.
        before_ns: what a save replaces: the typical time of the newest stored session in ns; None if nothing was
            stored.
        listing: the part of the sentence that lists `changes`; what shows them below the sentence leaves it out.
    """

    subject: Subject
    kind: VerdictKind
    sentence: str
    now_ns: float | None = None
    comparison: Comparison | None = None
    changes: tuple[ShapeChange, ...] = ()
    metric: str = "kernel"
    before_ns: float | None = None
    listing: str = ""

    @property
    def saves_other_launches(self) -> bool:
        """Whether a save makes other launches the baseline; times alone stand in the tables."""
        return self.kind is VerdictKind.SAVED and bool(self.changes)


@dataclass(frozen=True, slots=True)
class AffectedCases:
    """Which cases --nsight-affected chose.

    Attributes:
        since: the revision, as the user named it, with its commit.
        causes: case -> why it is measured: the changed file, and how the case depends on it.
        left_out: cases that nothing concerns of what has changed; they are not measured and have no verdict.
        unseen: file -> what of its imports cannot be followed, so that a change there is not noticed.
    """

    since: str
    causes: Mapping[str, str]
    left_out: tuple[str, ...]
    unseen: Mapping[str, str] = field(default_factory=dict)


# Without slots, since what is sorted by subject and case is kept.
@dataclass(frozen=True)
class SessionResult:
    """A finished session, ready to be rendered.

    Attributes:
        session: id of the session.
        recorded: UTC time of its start, ISO 8601; of a replay, that of the session that recorded it.
        collector: "nsys 2025.3.1 (/opt/...)", "torch" or "nsys, replay of ...".
        environment: names and values of the machine and its software.
        verdicts: one per subject, in order of collection.
        runs: all new runs, one RunSummary per subject and run.
        strict: whether --nsight-strict was on.
        saved: the baseline files written, relative to the root folder.
        notes: sentences about the session as a whole (why not nsys, kernels outside of ranges, ...).
        canaries: all new runs of the canaries, which have no verdicts.
        seeds: run id -> seed of the random order of its cases; runs in the user's order have none.
        limits: board -> what the canaries reached on it in this session; empty without canaries.
        datasheet: what the maker promises of the product, None where that is not known.
        partners: case -> the case that it claims to beat.
        baseline_runs: the stored runs, or those of the other tree, that the new ones are compared with.
        lines: case -> line of its test in its file, from 1; absent where that is not known.
        timelines: case -> the typical round of its newest run, as far as the recording shows one.
        metrics: case -> sampled counters of its board in its newest run.
        identities: case -> what its rounds launch; empty without an identity pass.
        affected: which cases were chosen by what has changed, None where all selected ones are measured.
        script: how the script is run that was measured in place of tests, "" for tests.
        baselines_option: folder of the baselines where the command line gives one, as a command in the root folder
            names it; "" where the default or the ini file does.
    """

    session: str
    recorded: str
    collector: str
    environment: Mapping[str, str]
    verdicts: tuple[Verdict, ...]
    runs: tuple[RunSummary, ...]
    strict: bool = False
    saved: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    canaries: tuple[RunSummary, ...] = ()
    seeds: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, Limits] = field(default_factory=dict)
    datasheet: Datasheet | None = None
    partners: Mapping[str, str] = field(default_factory=dict)
    baseline_runs: tuple[RunSummary, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)
    timelines: Mapping[str, RoundTimeline] = field(default_factory=dict)
    metrics: Mapping[str, MetricMeans] = field(default_factory=dict)
    identities: Mapping[str, Identity] = field(default_factory=dict)
    affected: AffectedCases | None = None
    script: str = ""
    baselines_option: str = ""

    @cached_property
    def runs_by_subject(self) -> Mapping[Subject, Sequence[RunSummary]]:
        """The new runs of each subject, in their order."""
        found: dict[Subject, list[RunSummary]] = {}
        for run in self.runs:
            found.setdefault(run.subject, []).append(run)
        return found

    @cached_property
    def verdicts_by_case(self) -> Mapping[str, Sequence[Verdict]]:
        """The verdicts of each case and its named ranges, in their order."""
        found: dict[str, list[Verdict]] = {}
        for verdict in self.verdicts:
            found.setdefault(verdict.subject.case, []).append(verdict)
        return found
