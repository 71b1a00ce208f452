"""The manifest: a worker's append-only record of a run, and its reader.

One JSON object a line, so that everything before a crash stays readable. Events, by "event":
run (format, run, session, recorded, commit, pid, tree) · assignment (seed, cases) · device (name, board,
environment) · process_failure (case, text) · case · round · conditions · report · case_end ·
work (case, bytes_moved, flops) · tuned (case, kernels) · canary_fault (case, text) ·
pair (case, partner, own_rounds, partner_rounds) · pair_fault (case, text) ·
identity (case, identity, claims) · identity_fault (text) · leaked_state (case, names, stuck) ·
warning (case, category, module, text, file, line) · fault (text: a collection error) ·
only_there (cases that only the other tree has) · ignored (paths) · wrong_import (module, file, checkout) ·
end (code) · late_import (module: a slow one of torch, first imported by a case of an identity pass) ·
wants_cases (its answer is another assignment). The last two are read while the worker runs.
Older recordings have events `race`, `race_fault`, `surplus`, `leak` and `device_failure`, which are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pytest_nsight.model.errors import RecordingError
from pytest_nsight.model.identity import Identity, TunedKernel
from pytest_nsight.model.json_text import DecodingError
from pytest_nsight.model.values import Work
from pytest_nsight.protocol.conditions import Conditions
from pytest_nsight.protocol.json_files import damaged, read_json_lines, read_known
from pytest_nsight.protocol.manifest_events import (
    CaseFault,
    CaseWarning,
    DeclaredWork,
    IdentifiedCase,
    LeakedState,
    PairedRounds,
    Round,
    TunedCase,
    WrongImport,
)
from pytest_nsight.protocol.phase_reports import PhaseReport, was_given_up

T = TypeVar("T")

FORMAT_VERSION = 1
FILE_NAME = "manifest.jsonl"


# Without slots, since what is summed up for each case is kept.
@dataclass(frozen=True)
class Manifest:
    """A run as its worker recorded it.

    Attributes:
        run: id of the run.
        session: id of the session.
        recorded: UTC time of the session, ISO 8601.
        commit: git commit of the tested tree, "" when unknown.
        pid: the worker's process.
        device: name of the GPU, or of the CPU where there is none; "" if no case measured anything.
        board: UUID of the GPU, or the CPU's name.
        environment: what a measurement depends on, as names and values.
        started: cases in the order in which they began.
        ended: cases that came to their end.
        rounds: all measured rounds, in order.
        reports: what pytest reported, phase by phase.
        faults: collection errors.
        exit_code: pytest's exit code in the worker; None if the worker did not come to its own end.
        seed: of the order of the cases, None where that was the user's.
        tree: which tree was measured: job.THIS_TREE or job.OTHER_TREE.
        only_there: marked tests of the other tree that are no cases of the session.
        ignored: files and folders of the other tree that pytest did not collect, as node ids name them.
        wrong_imports: modules that the worker took from the wrong tree.
        canary_faults: canaries that could not be measured.
        work: case -> what a round of it has to do, as the test declared it last.
        tuned: case -> what autotuners have chosen for it.
        conditions: case -> the conditions of its rounds, of the cases whose rounds came to their end.
        pairs: cases whose rounds alternated.
        assigned: the cases that the worker was to measure, None where it was not recorded.
        process_failure: the case that left the process unusable, after which the worker ended; None if none did.
        pair_faults: cases whose alternating rounds broke off.
        leaked_state: what cases left changed in the process.
        warnings: what cases warned of.
        identities: case -> what its rounds launch, of an identity pass.
        claims: case -> what it claims and the work that the claims refer to, as text, of an identity pass.
        identity_fault: why that could not be said of any case, "" if it could.
    """

    run: str
    session: str
    recorded: str
    commit: str
    pid: int
    device: str
    board: str
    environment: dict[str, str]
    started: tuple[str, ...]
    ended: tuple[str, ...]
    rounds: tuple[Round, ...]
    reports: tuple[PhaseReport, ...]
    faults: tuple[str, ...]
    exit_code: int | None
    seed: int | None = None
    tree: str = ""
    only_there: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    wrong_imports: tuple[WrongImport, ...] = ()
    canary_faults: tuple[CaseFault, ...] = ()
    work: dict[str, Work] = field(default_factory=dict)
    tuned: Mapping[str, tuple[TunedKernel, ...]] = field(default_factory=dict)
    conditions: Mapping[str, Conditions] = field(default_factory=dict)
    pairs: tuple[PairedRounds, ...] = ()
    pair_faults: tuple[CaseFault, ...] = ()
    assigned: tuple[str, ...] | None = None
    process_failure: CaseFault | None = None
    leaked_state: tuple[LeakedState, ...] = ()
    warnings: tuple[CaseWarning, ...] = ()
    identities: Mapping[str, Identity] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)
    identity_fault: str = ""

    @cached_property
    def case_count(self) -> int:
        """Cases that began."""
        return len(set(self.started))

    @cached_property
    def elapsed_ms(self) -> Mapping[str, int]:
        """Case -> time that its phases took, in ms. A case without reported phases is not in it."""
        seconds: dict[str, float] = {}
        for one in self.reports:
            seconds[one.case] = seconds.get(one.case, 0.0) + one.duration_s
        return {case: round(1000 * total) for case, total in seconds.items()}


@dataclass(frozen=True, slots=True)
class _Head:
    format: int = FORMAT_VERSION
    run: str = ""
    session: str = ""
    recorded: str = ""
    commit: str = ""
    pid: int = 0
    tree: str = ""


@dataclass(frozen=True, slots=True)
class _Assigned:
    cases: tuple[str, ...]
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class _MeasuredDevice:
    name: str = ""
    board: str = ""
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _CaseEvent:
    case: str


@dataclass(frozen=True, slots=True)
class _OnlyThere:
    cases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Ignored:
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Fault:
    text: str


@dataclass(frozen=True, slots=True)
class _End:
    code: int


_EVENTS: dict[str, type[Any]] = {
    "run": _Head,
    "assignment": _Assigned,
    "device": _MeasuredDevice,
    "case": _CaseEvent,
    "case_end": _CaseEvent,
    "round": Round,
    "conditions": Conditions,
    "report": PhaseReport,
    "work": DeclaredWork,
    "tuned": TunedCase,
    "canary_fault": CaseFault,
    "process_failure": CaseFault,
    "pair": PairedRounds,
    "pair_fault": CaseFault,
    "fault": _Fault,
    "only_there": _OnlyThere,
    "ignored": _Ignored,
    "wrong_import": WrongImport,
    "leaked_state": LeakedState,
    "warning": CaseWarning,
    "identity": IdentifiedCase,
    "identity_fault": _Fault,
    "end": _End,
}


class _Events:
    """The events of a manifest, by name."""

    def __init__(self, path: Path) -> None:
        self._by_name: dict[str, list[Any]] = {}
        for number, fields in read_json_lines(path):
            name = fields.pop("event", None)
            if not isinstance(name, str):
                raise damaged(path, number, DecodingError("", 'has no field "event"'))
            # What a newer version records beside the known events changes nothing in them.
            if name in _EVENTS:
                event = _decode(name, fields, path, number)
                self._by_name.setdefault(name, []).append(event)
                if isinstance(event, PhaseReport) and was_given_up(event.outcome):
                    self._forget_rounds(event.case)

    def _forget_rounds(self, case: str) -> None:
        """Leaves out what a case measured in an attempt that another one follows."""
        for name in ("round", "conditions", "pair", "pair_fault", "identity", "tuned"):
            self._by_name[name] = [one for one in self._by_name.get(name, ()) if one.case != case]

    def of(self, name: str, kind: type[T]) -> tuple[T, ...]:
        """All events of this name, in order."""
        return tuple(one for one in self._by_name.get(name, ()) if isinstance(one, kind))

    def first(self, name: str, kind: type[T]) -> T | None:
        """The first event of this name."""
        return next(iter(self.of(name, kind)), None)


def _decode(name: str, fields: dict[str, object], path: Path, number: int) -> object:
    if name == "run" and isinstance(version := fields.get("format"), int) and version > FORMAT_VERSION:
        raise RecordingError(f"{path} was written by a newer pytest-nsight (format {version}); upgrade")
    try:
        decoded: object = read_known(_EVENTS[name], fields)
    except DecodingError as error:
        raise damaged(path, number, error) from None
    if isinstance(decoded, PhaseReport) and not isinstance(decoded.report.get("outcome"), str):
        raise damaged(path, number, DecodingError(".report", "has no outcome"))
    return decoded


def read_manifest(path: Path) -> Manifest:
    """A run's manifest, whole or cut off.

    Raises:
        RecordingError: the file is missing, damaged, or of a newer pytest-nsight.
    """
    events = _Events(path)
    head = events.first("run", _Head) or _Head()
    device = events.first("device", _MeasuredDevice) or _MeasuredDevice()
    assignments, end = events.of("assignment", _Assigned), events.first("end", _End)
    work = {event.case: Work(event.bytes_moved, event.flops) for event in events.of("work", DeclaredWork)}
    identified = events.of("identity", IdentifiedCase)
    return Manifest(
        run=head.run,
        session=head.session,
        recorded=head.recorded,
        commit=head.commit,
        pid=head.pid,
        device=device.name,
        board=device.board,
        environment=device.environment,
        started=tuple(event.case for event in events.of("case", _CaseEvent)),
        ended=tuple(event.case for event in events.of("case_end", _CaseEvent)),
        rounds=events.of("round", Round),
        reports=events.of("report", PhaseReport),
        faults=tuple(event.text for event in events.of("fault", _Fault)),
        exit_code=end.code if end else None,
        seed=assignments[0].seed if assignments else None,
        tree=head.tree,
        only_there=tuple(case for event in events.of("only_there", _OnlyThere) for case in event.cases),
        ignored=tuple(path for event in events.of("ignored", _Ignored) for path in event.paths),
        wrong_imports=events.of("wrong_import", WrongImport),
        canary_faults=events.of("canary_fault", CaseFault),
        work=work,
        tuned={event.case: event.kernels for event in events.of("tuned", TunedCase)},
        conditions={event.case: event for event in events.of("conditions", Conditions)},
        pairs=events.of("pair", PairedRounds),
        pair_faults=events.of("pair_fault", CaseFault),
        assigned=tuple(case for one in assignments for case in one.cases) if assignments else None,
        process_failure=events.first("process_failure", CaseFault),
        leaked_state=events.of("leaked_state", LeakedState),
        warnings=events.of("warning", CaseWarning),
        identities={event.case: event.identity for event in identified},
        claims={event.case: f"{event.claims} of {work.get(event.case)}" for event in identified},
        identity_fault="; ".join(event.text for event in events.of("identity_fault", _Fault)),
    )
