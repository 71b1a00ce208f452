"""The manifest: what a worker has recorded of a run, as a value. `manifest_reader.py` reads it from its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pytest_nsight.model.identity import Identity, TunedKernel
from pytest_nsight.model.values import Work
from pytest_nsight.protocol.conditions import Conditions
from pytest_nsight.protocol.manifest_events import (
    CaseFault,
    CaseWarning,
    LeakedState,
    PairedRounds,
    Round,
    WrongImport,
)
from pytest_nsight.protocol.phase_reports import PhaseReport

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
