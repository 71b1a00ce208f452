"""What each case launches beside what it is compared with: what is the same of all, or of a part. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_nsight.gate.state import GateState
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.judge.code_changes import describe_proof
from pytest_nsight.model.identity import DEVICE_METRICS, Identity
from pytest_nsight.model.units import short_commit
from pytest_nsight.model.values import RunSummary, Subject
from pytest_nsight.protocol.manifest_events import last_attempt


@dataclass(frozen=True, slots=True)
class ComparedIdentity:
    """An identity of this session, and the one that it is compared with; the same reading made both.

    Attributes:
        now: of this session.
        before: of the other tree, or of the newest stored session.
        name: of what is compared with, such as "its baseline of 2026-11-20".
    """

    now: Identity
    before: Identity
    name: str

    @property
    def is_same(self) -> bool:
        """Whether all of a round is the same."""
        return self.now.digest == self.before.digest


def compare_identities(state: GateState, stored: StoredRuns) -> Mapping[str, ComparedIdentity]:
    """Case -> its identities, where there are two of durations that an identity decides.

    Args:
        state: after the identity pass.
        stored: the runs to compare with.
    """
    found = {}
    for case in state.plan.cases:
        now = state.identities.get(case.id)
        if now is None or not now.digest or not has_passed_once(state, case.id):
            continue
        if case.policy.metric not in DEVICE_METRICS:
            continue
        compared = _find_before(state, stored, case.id)
        if compared is not None and compared[0].digest and compared[0].reading == now.reading:
            found[case.id] = ComparedIdentity(now, *compared)
    return found


def _find_before(state: GateState, stored: StoredRuns, case: str) -> tuple[Identity, str] | None:
    if state.other.commit:
        there = state.other.identities.get(case)
        return None if there is None else (there, state.other.short_commit)
    newest = stored.newest_session(case)
    known = [run.identity for run in newest if run.identity is not None]
    if not known or len(known) < len(newest) or len({(one.digest, one.reading) for one in known}) > 1:
        return None
    return known[-1], _name_baseline(newest[-1])


def _name_baseline(run: RunSummary) -> str:
    commit = f" ({short_commit(run.commit)})" if run.commit else ""
    return f"its baseline of {run.recorded[:10]}{commit}"


def has_passed_once(state: GateState, case: str) -> bool:
    """Whether the case's test passed in the identity pass."""
    reports = last_attempt(state.identity_reports.get(case, ()))
    return bool(reports) and all(report["outcome"] == "passed" for report in reports)


def prove_parts(state: GateState, stored: StoredRuns, subjects: Iterable[Subject]) -> Mapping[Subject, str]:
    """Part -> the proof that it launches the same, in words, where its case as a whole is not proven to.

    Only other parts of such a case have changed. These may change the part's time all the same, by what they leave
    in the caches.

    Args:
        state: after the identity pass.
        stored: the runs to compare with.
        subjects: that were measured.
    """
    if not state.plan.skips_identical or not state.identities:
        return {}
    compared = compare_identities(state, stored)
    proofs = {}
    for subject in subjects:
        found = compared.get(subject.case)
        if not subject.part or found is None or subject.case in state.proven:
            continue
        launches = found.now.list_part(subject.part)
        if launches and launches == found.before.list_part(subject.part):
            proofs[subject] = describe_proof(launches, found.name)
    return proofs
