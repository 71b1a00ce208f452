"""What a session concludes: verdicts, the numbers behind them, and the session as a whole. All inert values."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_nsight.datasheet import Datasheet
from pytest_nsight.model import RunSummary, Shape, Subject
from pytest_nsight.roofline import Limits


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
    SAVED = "SAVED"

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


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every number that led to a verdict on time; times in ns, ratios as new / old.

    Attributes:
        metric: the gated duration.
        baseline_ns: exp of the mean over baseline runs of their locations.
        now_ns: the same over the new runs.
        ratio: now / baseline.
        low: lower end of the 90 % confidence interval of the ratio.
        high: upper end.
        p_slower: one-sided p-value of "not slower".
        p_faster: one-sided p-value of "not faster".
        adjusted_p_slower: after Benjamini-Hochberg over all compared subjects.
        adjusted_p_faster: likewise.
        band: the user's band, as a ratio.
        mde: smallest relative slowdown that the last look (9 new runs) finds with probability 0.95.
        standard_error: of the log ratio.
        degrees_of_freedom: of the t distribution used.
        run_sd: standard deviation of a run's location, of log time, as used (shrunken towards the prior).
        baseline_runs: number of baseline runs.
        new_runs: number of new runs.
        slower_kernels: (name, baseline ns, now ns) of the kernels that explain the change, worst first.
    """

    metric: str
    baseline_ns: float
    now_ns: float
    ratio: float
    low: float
    high: float
    p_slower: float
    p_faster: float
    adjusted_p_slower: float
    adjusted_p_faster: float
    band: float
    mde: float
    standard_error: float
    degrees_of_freedom: float
    run_sd: float
    baseline_runs: int
    new_runs: int
    slower_kernels: tuple[tuple[str, float, float], ...] = ()


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
        now_ns: the median of the gated duration over the new rounds in ns; None if nothing was measured.
        comparison: the numbers, None where nothing was compared on time.
        changes: how the structure changed, empty where it did not.
    """

    subject: Subject
    kind: VerdictKind
    sentence: str
    now_ns: float | None = None
    comparison: Comparison | None = None
    changes: tuple[ShapeChange, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionResult:
    """A finished session, ready to be rendered.

    Attributes:
        session: id of the session.
        recorded: UTC time of its start, ISO 8601.
        collector: "nsys", "torch" or "replay of ...".
        environment: of the machine, as told to the user.
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
