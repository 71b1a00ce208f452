"""The events of a manifest, each a frozen value; `manifest_reader.py` lists them by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from warnings import WarningMessage

from pytest_nsight.model.decoding import Count
from pytest_nsight.model.identity import Identity, TunedKernel
from pytest_nsight.protocol.conditions import NvmlSample

NEVER_CALLED = (
    "the test takes the fixture nsight and never calls it, so the whole test was measured: call nsight(f, x) with "
    "what is to be measured, or leave the fixture out"
)
"""A warning, and the likely cause where nothing was launched."""


@dataclass(frozen=True, slots=True)
class Round:
    """One measured round.

    Attributes:
        id: payload of the round's NVTX range, unique in the run's process.
        case: node id.
        parts: (payload, name) of the named ranges inside, in order of opening.
        start_ns: wall clock (Unix epoch) when the range opened.
        wall_ns: host time from opening the range to the end of the synchronisation inside it.
        rest_ns: pause before the round.
        cold_cache: whether the cache was flushed before it.
        reading: what NVML reported right after it.
        is_slowed: whether the board ran below its highest clock or named a reason to slow down.
    """

    id: int
    case: str
    parts: tuple[tuple[int, str], ...]
    start_ns: Count
    wall_ns: Count
    rest_ns: Count
    cold_cache: bool
    reading: NvmlSample = field(default_factory=NvmlSample)
    is_slowed: bool = False


@dataclass(frozen=True, slots=True)
class PairedRounds:
    """Two cases whose rounds alternated.

    Attributes:
        case: node id of the case that claims to be faster.
        partner: node id of the case that it is compared with.
        own_rounds: id under which the rounds of `case` are recorded.
        partner_rounds: the same for the partner.
    """

    case: str
    partner: str
    own_rounds: str
    partner_rounds: str


@dataclass(frozen=True, slots=True)
class CaseFault:
    """An error that cost a case something, but not its own result.

    Attributes:
        case: node id.
        text: the error, in one line.
    """

    case: str
    text: str


@dataclass(frozen=True, slots=True)
class IdentifiedCase:
    """What a case launches in every round, or why that cannot be said.

    Attributes:
        case: node id.
        identity: of it.
        claims: what its marks claim, as text; "" in older recordings.
    """

    case: str
    identity: Identity
    claims: str = ""


@dataclass(frozen=True, slots=True)
class DeclaredWork:
    """What a round of a case has to do, as its test says."""

    case: str
    bytes_moved: Count
    flops: Count


@dataclass(frozen=True, slots=True)
class TunedCase:
    """What autotuners have chosen for a case."""

    case: str
    kernels: tuple[TunedKernel, ...]


@dataclass(frozen=True, slots=True)
class WrongImport:
    """A module that a worker imported from the user's tree, or from a third one, while it measured another one.

    Attributes:
        module, file: its dotted name, and where it lies.
        checkout: top folder of the third one, "" where the file is the user's tree's.
    """

    module: str
    file: str
    checkout: str = ""


@dataclass(frozen=True, slots=True)
class LeakedState:
    """State of the process that a case left changed.

    Attributes:
        case: node id.
        names: what had changed, such as "default dtype" or "environment variable HOME".
        stuck: those of them that could not be put back.
    """

    case: str
    names: tuple[str, ...]
    stuck: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseWarning:
    """A warning that a case gave.

    Attributes:
        case: node id.
        category, module: name and module of its class.
        text: what it says.
        file, line: where it was given.
    """

    case: str
    category: str
    module: str
    text: str
    file: str
    line: int

    @classmethod
    def of(cls, case: str, given: WarningMessage) -> CaseWarning:
        """What Python recorded of a warning."""
        kind = given.category.__name__, given.category.__module__
        return cls(case, *kind, str(given.message), given.filename, given.lineno)
