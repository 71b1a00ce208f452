"""Reads a manifest, a worker's append-only record of a run.

One JSON object a line, so that everything before a crash stays readable. Events, by "event":
run (format, run, session, recorded, commit, pid, tree) · assignment (seed, cases) · device (name, board,
environment) · process_failure (case, text) · case · attempt (case: it is run once more) · round · conditions ·
report · case_end · work (case, bytes_moved, flops) · tuned (case, kernels) · canary_fault (case, text) ·
pair (case, partner, own_rounds, partner_rounds) · pair_fault (case, text) ·
identity (case, identity, claims) · identity_fault (text) · leaked_state (case, names, stuck) ·
warning (case, category, module, text, file, line) · fault (text: a collection error) ·
only_there (cases that only the other tree has) · ignored (paths) · wrong_import (module, file, checkout) ·
end (code) · late_import (module: a slow one of torch, first imported by a case of an identity pass) ·
wants_cases (its answer is another assignment). The last two are read while the worker runs.
Older recordings have events `race`, `race_fault`, `surplus`, `leak` and `device_failure`, which are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pytest_nsight.model.errors import RecordingError
from pytest_nsight.model.json_text import DecodingError
from pytest_nsight.model.values import Work
from pytest_nsight.protocol.conditions import Conditions
from pytest_nsight.protocol.json_files import damaged, read_json_lines, read_known
from pytest_nsight.protocol.manifest import FORMAT_VERSION, Manifest
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
    "attempt": _CaseEvent,
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
                event: Any = _decode(name, fields, path, number)
                self._by_name.setdefault(name, []).append(event)
                if name == "attempt" or (isinstance(event, PhaseReport) and was_given_up(event.outcome)):
                    self._forget_attempt(event.case)

    def _forget_attempt(self, case: str) -> None:
        """Leaves out what a case measured in an attempt that another one follows, and that it was over."""
        for name in ("case_end", "round", "conditions", "pair", "pair_fault", "identity", "tuned"):
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
