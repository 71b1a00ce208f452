"""The values that flow between the stages. All are inert: no files, no processes, no pytest.

case -> rounds -> trace -> launches per round -> RunSummary -> Comparison -> Verdict -> SessionResult
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pytest_nsight.model.identity import Identity, TunedKernel
from pytest_nsight.model.shapes import ShapeSpread, ShapeUse

METRICS = ("kernel", "busy", "span", "gap", "copy", "sync", "wall", "launch")
"""Names of the per-round durations that `metric=` may choose; each is stored in integer nanoseconds.

kernel: sum of kernel durations · busy: union over streams · span: first start to last end ·
gap: idle time inside the span · copy: memory copies and sets · sync: host time in synchronisation calls ·
wall: length of the range on the host · launch: host time in launch calls.
"""

CANARIES = "nsight_canaries"
"""Module part of the node ids of the canaries, the plugin's own cases: `nsight_canaries::copy`."""

KEPT_RUNS = 20
"""Newest runs of a subject that a baseline keeps."""

DEFAULT_BAND = 0.01
"""Relative change that counts where the user does not say; docs/validation says why."""


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
    def is_canary(self) -> bool:
        """Whether this is one of the plugin's own cases, measured beside the user's to know the board."""
        return self.case.startswith(f"{CANARIES}::")

    @property
    def label(self) -> str:
        """The name as tables and sentences show it: without the file, with the part behind a slash."""
        name = self.case.split("::", 1)[-1]
        return f"{name}/{self.part}" if self.part else name

    def holds(self, words: Iterable[str]) -> bool:
        """Whether the node id, with the part behind a slash as in `label`, holds every one of these words."""
        name = f"{self.case}/{self.part}" if self.part else self.case
        return all(word in name for word in words)


@dataclass(frozen=True, slots=True)
class Work:
    """What a round has to do at least, whatever the implementation: the roofline's input.

    Attributes:
        bytes_moved: bytes that must be read from and written to the device's memory.
        flops: floating-point operations, a multiply-add counted as two.
    """

    bytes_moved: int = 0
    flops: int = 0


@dataclass(frozen=True, slots=True)
class Clocks:
    """What NVML said right after the rounds of one case in one run; None where it could not be read.

    Attributes:
        sm_mhz: median SM clock.
        power_w: median power draw.
        temperature_c: highest temperature.
        throttled: share of rounds (0 to 1) after which a slowdown reason was active.
        reasons: names of these reasons, sorted.
        foreign_processes: foreign processes that used the board meanwhile, such as "pid 123 (python)", sorted.
        round_mhz: SM clock read with each round, in order; empty unless it was read with every round.
        processor_lost: share (0 to 1) of the time that the process could run in which other programs had its
            CPU; None where a GPU was measured, or where the system does not say.
    """

    sm_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    throttled: float | None = None
    reasons: tuple[str, ...] = ()
    foreign_processes: tuple[str, ...] = ()
    round_mhz: tuple[int, ...] = ()
    processor_lost: float | None = None


def is_gpu(board: str) -> bool:
    """Whether a board's name is the UUID of a GPU or of a part of one."""
    return board.startswith(("GPU-", "MIG-"))


MEDIAN = 0.5
LOW_SHARE = 0.1
"""On a CPU that others share a disturbance only ever adds time: its fast rounds say what the code takes."""


def typical_share(board: str) -> float:
    """The quantile at which a case's rounds are typical: `MEDIAN` on a GPU, `LOW_SHARE` on a CPU."""
    return MEDIAN if is_gpu(board) else LOW_SHARE


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One subject in one run: everything that judging and the baseline need.

    Attributes:
        subject: what was measured.
        run: id of the run, unique over all sessions.
        session: id of the session.
        board: UUID of the GPU; a name of the CPU where there is none.
        rounds: metric -> one duration in ns per round, in order; absent if the collector cannot see it.
        shapes: the launches of a round, in order of first launch.
        is_stable: whether every round launched exactly the same multiset of shapes.
        varying: where not, what differed between rounds; not stored.
        copied_bytes: bytes moved by memory copies and sets per round (median).
        clocks: clocks and power beside the rounds.
        environment: names and values that a comparison depends on, see baselines/comparability.py.
        recorded: UTC time, ISO 8601.
        commit: git commit of the tested tree, "" when unknown; "+" at its end when it had changes.
        work: what a round has to do, None where it is not declared.
        reason: why these runs became a baseline, as their user wrote; "" for none.
        cases: number of cases that its process measured, 0 when unknown: what ran before a short kernel changes it.
        elapsed_ms: time that the test took in its process, set-up and teardown included; 0 when unknown.
        identity: what a round launches, None where that is not known, and of parts.
        tuned: what autotuners have chosen for the case, sorted.
    """

    subject: Subject
    run: str
    session: str
    board: str
    rounds: Mapping[str, tuple[int, ...]]
    shapes: tuple[ShapeUse, ...] = ()
    is_stable: bool = True
    varying: tuple[ShapeSpread, ...] = ()
    copied_bytes: int = 0
    clocks: Clocks = field(default_factory=Clocks)
    environment: Mapping[str, str] = field(default_factory=dict)
    recorded: str = ""
    commit: str = ""
    work: Work | None = None
    reason: str = ""
    cases: int = 0
    elapsed_ms: int = 0
    identity: Identity | None = None
    tuned: tuple[TunedKernel, ...] = ()

    @property
    def ran_on_gpu(self) -> bool:
        """Whether a GPU was measured, and not the operators of a CPU."""
        return is_gpu(self.board)


@dataclass(frozen=True, slots=True)
class InterleavedPairs:
    """Interleaved rounds of a case and the one that it claims to beat, in one run.

    The n-th rounds of both are a pair; which of the two came first alternates from pair to pair.

    Attributes:
        run: id of the run.
        own: rounds of the claiming case.
        partner: rounds of the other.
    """

    run: str
    own: RunSummary
    partner: RunSummary


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
        min_share_of_limit: share of the board's limit that it must reach, None for no claim.
    """

    band: float = DEFAULT_BAND
    metric: str = "kernel"
    launches: int | None = None
    kernels: tuple[str, ...] | None = None
    max_time_ns: int | None = None
    faster_than: str | None = None
    by: float = 1.0
    min_share_of_limit: float | None = None

    @property
    def has_claims(self) -> bool:
        """Whether it demands anything of the new runs alone."""
        claims = (self.launches, self.kernels, self.max_time_ns, self.faster_than, self.min_share_of_limit)
        return any(claim is not None for claim in claims)

    def without_claims(self) -> Policy:
        """The same, demanding nothing of the new runs alone."""
        return Policy(band=self.band, metric=self.metric)


@dataclass(frozen=True, slots=True)
class Case:
    """One test to measure.

    Attributes:
        id: pytest node id.
        policy: what its verdict must obey.
        ranks: number of processes that run it together.
        line: line of the test in its file, from 1; None where that is not known.
        timeout_s: how long it may take in one process, None for the session's limit.
    """

    id: str
    policy: Policy = field(default_factory=Policy)
    ranks: int = 1
    line: int | None = None
    timeout_s: float | None = None
