"""What a baseline file holds, version by version: `encode` writes the newest, `decode` reads all.

Versions (`format` in the file):

1. `environments`, `shapes` and `subjects`. A run has one line of fields and one line for each metric: its rounds in
   ns, or `{"value": 0, "rounds": 40}` where all are equal, or the name of an earlier metric with the same numbers.
2. What runs share stands once, under a key made from its content, so that a new run changes no line of an old one:
   `environments`, `kernels` (names), `shapes`, `structures` (what a round launches, copies and has to do) and
   `origins` (session, time, commit, board, environment, reason). A run is one line, the
   fields of `StoredRun`. Rounds are packed, see `packed_integers`; metrics with the same numbers share an entry,
   `"kernel busy": "100x2144"`, and `"gap": "span-busy"` is the difference of the two.
3. Format 2 with `launches` (one launch, copy or set each, see `StoredLaunch`) and `identities` (a digest, and keys
   of launches in order); a structure names the identity of what it launches.
4. Format 3, with or without identities, where a structure also has `tuned`: name, problem, configuration and
   launches of the kernels that autotuners have tuned; or "cuDNN" with its settings, where it chooses by time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Annotated

from pytest_nsight.baselines.stored_identities import StoredIdentity, StoredLaunch
from pytest_nsight.model.decoding import AsRow, Bounds, Count
from pytest_nsight.model.errors import BaselineError
from pytest_nsight.model.json_text import shown
from pytest_nsight.model.values import RunSummary, Subject

FORMAT_VERSION = 4
"""The newest version; files of this version and of all earlier ones are read."""

FORMAT_WITHOUT_TUNING = 3
"""The version that is written where autotuners have tuned nothing, so that older plugins read it, too."""

FORMAT_WITHOUT_IDENTITIES = 2
"""The version that is written where no run has an identity either."""

MOST_ROUNDS = 100_000
"""Most rounds of a run that are read: a thousand times what a run takes unless the mark asks for more."""

MOST_DURATIONS = 10_000_000
"""Most durations in a file that are read; they take up to 400 MB of memory."""

GAP_IS_DERIVED = "span-busy"
"""Stands for the rounds of "gap" where each is its span less its busy time."""

Runs = Mapping[Subject, tuple[RunSummary, ...]]
"""Stored runs of each subject, oldest first."""

Duration = Annotated[int, Bounds(0, 2**53)]
"""Nanoseconds, up to 104 days: a float holds each of them exactly."""

_Launches = Annotated[int, Bounds(0, 2**31)]
_Extent = tuple[_Launches, _Launches, _Launches]
_Share = Annotated[float, Bounds(0, 1)]
_Watts = Annotated[float, Bounds(0, 1e6)]


class NewerFormatError(BaselineError):
    """A file in a format that only a later version of this plugin reads."""


class MergeConflictError(BaselineError):
    """A file that git could not merge."""


@dataclass(frozen=True, slots=True)
class StoredConstant:
    """Format 1: rounds that all took the same time."""

    value: Duration
    rounds: Annotated[int, Bounds(1, MOST_ROUNDS)]


@dataclass(frozen=True, slots=True)
class StoredClocks:
    """Format 1: the clocks beside the rounds; `others` are foreign processes."""

    sm_mhz: Count | None = None
    power_w: _Watts | None = None
    temperature_c: Count | None = None
    throttled: _Share | None = None
    reasons: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    round_mhz: tuple[Count, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredWork:
    """Both formats: what a round has to do."""

    bytes_moved: Count = 0
    flops: Count = 0


@dataclass(frozen=True, slots=True)
class StoredNamedShape:
    """Format 1: a way of launching a kernel, with the kernel's names."""

    kind: str
    name: str
    full_name: str
    grid: _Extent
    block: _Extent
    registers: _Launches
    shared_bytes: Count


@dataclass(frozen=True, slots=True)
class StoredWholeRun:
    """Format 1: a run with all that it does not share."""

    run: str
    session: str
    recorded: str
    commit: str
    board: str
    environment: str
    clocks: StoredClocks
    is_stable: bool
    copied_bytes: Count
    launches: tuple[tuple[str, _Launches, Duration], ...]
    rounds: Mapping[str, tuple[Duration, ...] | str | StoredConstant]
    work: StoredWork | None = None


@dataclass(frozen=True, slots=True)
class StoredWholeSubject:
    """Format 1: a subject."""

    case: str
    part: str
    runs: tuple[StoredWholeRun, ...]


@dataclass(frozen=True, slots=True)
class FirstFormat:
    """Format 1: the file."""

    format: int
    environments: Mapping[str, Mapping[str, str]]
    shapes: Mapping[str, StoredNamedShape]
    subjects: tuple[StoredWholeSubject, ...]


@dataclass(frozen=True, slots=True)
class StoredKernel:
    """Format 2: the names of a kernel."""

    name: str
    full_name: str = ""


@dataclass(frozen=True, slots=True)
class StoredShape:
    """Format 2: a way of launching a kernel; `kernel` is a key."""

    kind: str
    kernel: str
    grid: _Extent
    block: _Extent
    registers: _Launches
    shared_bytes: Count


@dataclass(frozen=True, slots=True)
class StoredStructure:
    """Format 2: what a round does: (key of a shape, launches) in order, bytes copied, work.

    Format 3: the key of its identity. Format 4: what autotuners have tuned.
    """

    launches: tuple[tuple[str, _Launches], ...]
    is_stable: bool = True
    copied_bytes: Count = 0
    work: StoredWork | None = None
    identity: str = ""
    tuned: tuple[tuple[str, str, str, _Launches], ...] = ()


@dataclass(frozen=True, slots=True)
class StoredOrigin:
    """Format 2: where runs come from; their ids begin with `runs`, and `environment` is a key."""

    runs: str
    session: str
    recorded: str
    commit: str
    board: str
    environment: str
    reason: str = ""
    cases: Count = 0


@dataclass(frozen=True, slots=True)
class StoredRun:
    """Format 2: a run of one subject; in the file a list of these fields, in order, as far as they are not empty.

    Attributes:
        origin: a key.
        end_of_id: what follows in the run's id after the origin's `runs`.
        structure: a key.
        clocks: SM clock in MHz, power in W, temperature in °C, share of throttled rounds; null where unknown.
        medians: of each launch of the structure, in ns.
        rounds: metrics, separated by spaces -> packed durations.
        reasons: names of the slowdown reasons.
        foreign: foreign processes on the board.
        round_mhz: packed SM clock of each round.
        processor_lost: share of the time that other programs had the CPU.
        elapsed_ms: time that the test took in its process.
    """

    origin: str
    end_of_id: str
    structure: str
    clocks: tuple[Count | None, _Watts | None, Count | None, _Share | None]
    medians: tuple[Duration, ...]
    rounds: Mapping[str, str]
    reasons: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    round_mhz: str = ""
    processor_lost: _Share | None = None
    elapsed_ms: Count = 0


@dataclass(frozen=True, slots=True)
class StoredSubject:
    """Format 2: a subject."""

    case: str
    part: str
    runs: tuple[Annotated[StoredRun, AsRow()], ...]


@dataclass(frozen=True, slots=True)
class SecondFormat:
    """Formats 2 to 4: the file."""

    format: int
    environments: Mapping[str, Mapping[str, str]]
    kernels: Mapping[str, StoredKernel]
    shapes: Mapping[str, StoredShape]
    structures: Mapping[str, StoredStructure]
    origins: Mapping[str, StoredOrigin]
    subjects: tuple[StoredSubject, ...]
    launches: Mapping[str, StoredLaunch] = field(default_factory=dict)
    identities: Mapping[str, StoredIdentity] = field(default_factory=dict)


def by_age(run: RunSummary) -> tuple[datetime, str]:
    """Sorting key, oldest first; runs without a time come before all others.

    Raises:
        BaselineError: the run's time is not ISO 8601.
    """
    return _moment(run), run.run


def _moment(run: RunSummary) -> datetime:
    if not run.recorded:
        return datetime.min.replace(tzinfo=timezone.utc)
    try:
        # Python 3.10 does not read the "Z".
        moment = datetime.fromisoformat(run.recorded.replace("Z", "+00:00"))
    except ValueError as error:
        where = f"run {shown(run.run)} of {shown(run.subject.label)}"
        raise BaselineError(f"{where} has the time {shown(run.recorded)}, expected one in ISO 8601") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def begins_as_baselines(head: bytes) -> bool:
    """Whether a JSON file begins as baseline files of all formats do; git may have left a conflict in it."""
    return head.startswith((b"{", b"<<<<<<< ")) and b'"format"' in head and b'"environments"' in head
