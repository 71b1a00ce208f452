"""The values that flow between the stages. All are inert: no files, no processes, no pytest.

case -> rounds -> trace -> launches per round -> RunSummary -> Comparison -> Verdict -> SessionResult
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

METRICS = ("kernel", "busy", "span", "gap", "copy", "sync", "wall", "launch")
"""Names of the per-round durations that `metric=` may choose; each is stored in integer nanoseconds.

kernel: sum of kernel durations · busy: union over streams · span: first start to last end ·
gap: idle time inside the span · copy: memory copies and sets · sync: host time in synchronisation calls ·
wall: length of the range on the host · launch: host time in launch calls.
"""


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """What is compared: a case, or one named range inside it.

    Attributes:
        case: pytest node id, relative to the root folder.
        part: name of the range inside the case, "" for the whole measured body.
    """

    case: str
    part: str = ""

    @property
    def label(self) -> str:
        """The name as tables and sentences show it: without the file, with the part behind a slash."""
        name = self.case.split("::", 1)[-1]
        return f"{name}/{self.part}" if self.part else name


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """One way of launching one kernel: the unit of the structure gate.

    Attributes:
        kind: "kernel", "memcpy", "memset", "graph" (a CUDA graph traced whole) or "operator" (CPU).
        name: normalised name, stable over builds; what the structure gate compares.
        full_name: the name as the profiler gave it.
        grid: blocks in x, y, z; (0, 0, 0) where the kind has none.
        block: threads in x, y, z.
        registers: registers per thread.
        shared_bytes: static plus dynamic shared memory of a block.
    """

    kind: str
    name: str
    full_name: str = ""
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    registers: int = 0
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ShapeUse:
    """How often a round launches a shape, and how long that takes.

    Attributes:
        shape: what is launched.
        count: launches per round.
        median_ns: median over the rounds of the shape's total time in a round.
    """

    shape: Shape
    count: int
    median_ns: int


@dataclass(frozen=True, slots=True)
class Clocks:
    """What NVML said right after the rounds of one case in one run; None where it could not be read.

    Attributes:
        sm_mhz: median SM clock.
        power_w: median power draw.
        temperature_c: highest temperature.
        throttled: share of rounds (0 to 1) after which a slowdown reason was active.
        reasons: names of these reasons, sorted.
    """

    sm_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    throttled: float | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One subject in one run: everything that judging and the baseline need.

    Attributes:
        subject: what was measured.
        run: id of the run, unique over all sessions.
        session: id of the session.
        board: UUID of the GPU; a name of the processor where there is none.
        rounds: metric -> one duration in ns per round, in order; absent if the collector cannot see it.
        shapes: the launches of a round, in order of first launch.
        is_stable: whether every round launched exactly the same multiset of shapes.
        copied_bytes: bytes moved by memory copies and sets per round (median).
        clocks: clocks and power beside the rounds.
        environment: names and values that a comparison depends on, see baselines/environment.py.
        recorded: UTC time, ISO 8601.
        commit: git commit of the tested tree, "" when unknown; "+" at its end when it had changes.
    """

    subject: Subject
    run: str
    session: str
    board: str
    rounds: Mapping[str, tuple[int, ...]]
    shapes: tuple[ShapeUse, ...] = ()
    is_stable: bool = True
    copied_bytes: int = 0
    clocks: Clocks = field(default_factory=Clocks)
    environment: Mapping[str, str] = field(default_factory=dict)
    recorded: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a case demands of its verdict: settings and mark, resolved.

    Attributes:
        band: relative change that the user calls material, as a ratio (0.02 is 2 %).
        metric: which duration is gated, one of METRICS.
        launches: number of launches that a round must make, None for no claim.
        kernels: normalised kernel names that a round must launch, None for no claim.
        max_time_ns: longest time that the gated duration may take, None for no claim.
        faster_than: id of the case that this one must beat, None for no claim.
        by: factor by which it must beat it.
    """

    band: float = 0.02
    metric: str = "kernel"
    launches: int | None = None
    kernels: tuple[str, ...] | None = None
    max_time_ns: int | None = None
    faster_than: str | None = None
    by: float = 1.0


@dataclass(frozen=True, slots=True)
class Case:
    """One test to measure.

    Attributes:
        id: pytest node id.
        policy: what its verdict must obey.
    """

    id: str
    policy: Policy = field(default_factory=Policy)


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
