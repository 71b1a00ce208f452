"""The events of a manifest: what a worker's journal records, one frozen value each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

# By name: a test may replace what its module holds, and its events must still be written.
from os import getpid
from pathlib import Path
from typing import IO, Any
from warnings import WarningMessage

from pytest_nsight.model.decoding import Count
from pytest_nsight.model.errors import name_error
from pytest_nsight.model.identity import Identity, TunedKernel
from pytest_nsight.model.json_text import format_any
from pytest_nsight.model.values import Work
from pytest_nsight.protocol.conditions import Conditions, NvmlSample

NEVER_CALLED = (
    "the test takes the fixture nsight and never calls it, so the whole test was measured: call nsight(f, x) with "
    "what is to be measured, or leave the fixture out"
)
"""A warning, and the likely cause where nothing was launched."""
EXPECTS_EXCEPTION = "nsight_expects_exception"
"""Of a report whose test is marked xfail for certain exceptions: a verdict is none of them."""
FAILED_FIXTURE = "nsight_failed_fixture"
"""Of a report whose teardown failed: the fixture of several tests that did, which the test itself need not use."""

_LONGEST_S = 1e9
_LATEST_S = 1e12


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
class PhaseReport:
    """What pytest reported of one phase of a test: its setup, its call or its teardown.

    Attributes:
        case: node id.
        report: pytest's own serialisation.
    """

    case: str
    report: dict[str, object]

    @property
    def outcome(self) -> str:
        """`passed`, `failed` or `skipped`; other plugins add words of their own."""
        return str(self.report["outcome"])

    @property
    def duration_s(self) -> float:
        """How long the phase took; 0 where that is not recorded."""
        duration_s = self.report.get("duration", 0)
        # Bounded before it is converted: an integer may be larger than any float.
        return float(min(max(0, duration_s), _LONGEST_S)) if isinstance(duration_s, (int, float)) else 0.0

    @property
    def stop_s(self) -> float:
        """When the phase ended, in seconds of the Unix epoch; 0 in older recordings."""
        stop_s = self.report.get("stop", 0)
        return float(min(max(0, stop_s), _LATEST_S)) if isinstance(stop_s, (int, float)) else 0.0


_OUTCOMES = frozenset({"passed", "failed", "skipped"})


def was_given_up(outcome: object) -> bool:
    """Whether a phase with this outcome ended an attempt at a test that another one follows.

    pytest-rerunfailures reports the failed phase of such an attempt as "rerun", pytest-retry as "retried".
    """
    return outcome not in _OUTCOMES


def is_subtest(report: Mapping[str, Any]) -> bool:
    """Whether a report is that of a subtest, and not of a phase of the test around it.

    Args:
        report: in pytest's own serialisation, of pytest 9's `subtests` fixture or of pytest-subtests.
    """
    return report.get("_report_type") == "SubTestReport"


def last_attempt(reports: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The reports that decide whether a test passed: the phases of its last attempt, and failed subtests.

    A subtest that is skipped, or fails as expected, leaves the test itself passed.

    Args:
        reports: of all attempts, in order, in pytest's own serialisation.
    """
    ends = [at for at, report in enumerate(reports, 1) if was_given_up(report["outcome"])]
    last = reports[ends[-1] :] if ends else reports
    return [report for report in last if not is_subtest(report) or report["outcome"] == "failed"]


_STACK = '  File "'
"""How the stack of an error begins, as Python's module traceback writes it."""


def first_line_of(longrepr: object) -> str:
    """The first line of why a phase did not pass, "" for none.

    Args:
        longrepr: as pytest serialises it: a traceback, of a skip the file, the line and the reason, or a text.
            Of a script it is a text; what older versions kept begins with the stack, whose lines are indented.
    """
    if isinstance(longrepr, Mapping):
        longrepr = (longrepr.get("reprcrash") or {}).get("message")
    elif isinstance(longrepr, (list, tuple)):
        longrepr = longrepr[-1] if longrepr else ""
    lines = str(longrepr or "").strip("\n").splitlines()
    if lines and lines[0].startswith(_STACK):
        lines = [line for line in lines if not line.startswith(" ")] or lines
    return next((line.strip() for line in lines if line.strip()), "")


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


class Journal:
    """Writes a manifest, line by line; every line reaches the file before the next thing happens."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8")
        self._pid = getpid()

    def write(self, event: str, **values: Any) -> None:
        """Appends one event; in a process that a test has forked it does nothing."""
        if getpid() != self._pid:
            return
        self._file.write(format_any({"event": event, **values}) + "\n")
        self._file.flush()

    def write_work(self, case: str, work: Work) -> None:
        """Appends what a round of the case has to do."""
        self.write("work", case=case, **asdict(work))

    def write_fault(self, event: str, case: str, error: Exception) -> None:
        """Appends an error that costs no test its result, cut to one line."""
        self.write(event, case=case, text=name_error(error))

    def write_identity(self, identified: IdentifiedCase) -> None:
        """Appends the identity of a case."""
        self.write("identity", **asdict(identified))

    def write_tuned(self, tuned: TunedCase) -> None:
        """Appends what autotuners have chosen for a case, if they have."""
        if tuned.kernels:
            self.write("tuned", **asdict(tuned))

    def write_conditions(self, conditions: Conditions) -> None:
        """Appends the conditions of a case."""
        self.write("conditions", **asdict(conditions))

    def write_round(self, measured: Round) -> None:
        """Appends one measured round."""
        self.write("round", **asdict(measured))
