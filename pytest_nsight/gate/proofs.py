"""Chooses the cases that need no timing, the ones timed as an audit, and their verdicts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pytest_nsight.gate.compared_identities import compare_identities, has_passed_once
from pytest_nsight.gate.identity_records import FAILED_IN_PASS, describe_failed
from pytest_nsight.gate.judging import list_subjects
from pytest_nsight.gate.state import GateState
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.judge.code_changes import describe_proof
from pytest_nsight.judge.judge import find_held
from pytest_nsight.judge.sentences import change_of_time
from pytest_nsight.judge.subject_runs import SubjectRuns
from pytest_nsight.judge.thresholds import BOARDS_DIFFER, boards_may_explain
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.roofline import measure_limits
from pytest_nsight.model.units import count, name_cases, percent
from pytest_nsight.model.values import Case, Subject
from pytest_nsight.model.verdicts import Verdict, VerdictKind

AUDITED = 3
"""Least number of identical cases that a session times if it has that many: every session tests the claim."""

_CONTRADICTING = (VerdictKind.REGRESSION, VerdictKind.STRUCTURE, VerdictKind.IMPROVEMENT)
_BOARDS_MAY_DIFFER = (
    f"no stored run is of this board, and boards alone may differ by up to {percent(BOARDS_DIFFER, signed=False)}"
)
_UNIDENTIFIED_ARE_TIMED = "nothing is wrong: such cases are timed"


def prove_identical(state: GateState, stored: StoredRuns) -> GateState:
    """The state with the cases that are proven identical to what they are compared with, and with their reports.

    Args:
        state: after the identity pass.
        stored: the runs to compare with.
    """
    if not state.plan.skips_identical or not state.identities:
        return state
    identical = {case: one.name for case, one in compare_identities(state, stored).items() if one.is_same}
    cases = {case.id: case for case in state.plan.cases}
    unsettled = _find_unsettled_claims(state, stored, [cases[case] for case in identical])
    proven = {case: compared for case, compared in identical.items() if case not in unsettled}
    reports = {case: state.identity_reports[case] for case in proven}
    return replace(state, proven=proven, reports={**state.reports, **reports})


def choose_timed(state: GateState) -> tuple[str, ...]:
    """The cases to time, in the order of collection: unproven ones, those that they claim to beat, and an audit."""
    if state.plan.times_all_identical:
        return state.plan.case_ids
    partners = state.plan.partners
    timed = {case for case in state.plan.case_ids if case not in state.proven}
    timed |= {partners[case] for case in timed if case in partners}
    left = [case for case in state.plan.case_ids if case not in timed]
    audited = AUDITED - sum(case in state.proven for case in timed)
    if left and audited > 0:
        chance = random.Random(f"{state.plan.audit_seed}/audit")
        timed.update(chance.sample(left, min(audited, len(left))))
    return tuple(case for case in state.plan.case_ids if case in timed)


def _find_unsettled_claims(state: GateState, stored: StoredRuns, identical: Sequence[Case]) -> set[str]:
    """Identical cases whose claims need new runs.

    A claim stands if it holds for the stored runs, which have the same launches. In a comparison of two trees, a
    claim stands if the other tree makes the same one and the case that it claims to beat is identical, too.
    """
    ids = {case.id for case in identical}
    unsettled = {case.id for case in identical if case.policy.faster_than not in (None, *ids)}
    claiming = [case for case in identical if case.policy.has_claims and case.id not in unsettled]
    if state.other.commit:
        there, here = state.other.claims, state.claims
        return unsettled | {case.id for case in claiming if there.get(case.id) != here.get(case.id)}
    if not claiming:
        return unsettled
    limits = measure_limits([run for run in stored.all if run.subject.is_canary])
    wanted = {one for case in claiming for one in (case.id, case.policy.faster_than) if one is not None}
    subjects = [
        SubjectRuns(
            Subject(case.id),
            case.policy,
            (),
            stored.newest_session(case.id),
            limits=limits,
        )
        for case in identical
        if case.id in wanted
    ]
    holding = {subject.case for subject in find_held(subjects, family=family)}
    return unsettled | {case.id for case in claiming if case.id not in holding}


def join_proofs(state: GateState, stored: StoredRuns, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts with those on proven cases, in the order of collection.

    A proven case or part that was timed keeps a verdict that contradicts the proof; any other is only mentioned.

    Args:
        state: at the end of a session.
        stored: the runs that were compared with.
        verdicts: by time.
    """
    parts = {one.subject: one.proof for one in list_subjects(state, stored)}
    by_case: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_case.setdefault(verdict.subject.case, []).append(verdict)
    joined: list[Verdict] = []
    for case in state.plan.cases:
        own = by_case.get(case.id, [])
        if case.id in state.problems or not state.has_passed(case.id):
            joined += own
        elif case.id not in state.proven:
            joined += [_join_part(verdict, parts.get(verdict.subject, "")) for verdict in own]
        elif own:
            joined += [_join_audit(verdict, _prove(state, case.id)) for verdict in own]
        else:
            sentence = f"{Subject(case.id).label}: {_prove(state, case.id)}; not timed"
            joined.append(Verdict(Subject(case.id), VerdictKind.IDENTICAL, sentence, metric=case.policy.metric))
    return tuple(joined)


def _prove(state: GateState, case: str) -> str:
    return describe_proof(state.identities[case].expand(), state.proven[case])


def _join_audit(verdict: Verdict, proof: str) -> Verdict:
    if _contradicts(verdict):
        return verdict
    label = verdict.subject.label
    if verdict.kind is VerdictKind.INCONCLUSIVE and verdict.comparison is not None:
        # An audit takes few runs on purpose: it asks for no more, and nobody has to settle it.
        timed = f": {change_of_time(verdict.comparison)}"
    else:
        timed = f", {verdict.kind.value}: {verdict.sentence.removeprefix(f'{label}: ')}"
    sentence = f"{label}: {proof}; timed as an audit{timed}"
    return replace(verdict, kind=VerdictKind.IDENTICAL, sentence=sentence)


def _contradicts(verdict: Verdict) -> bool:
    """Whether a verdict by time, or on launches, speaks against a proof that the launches are the same."""
    if verdict.kind is VerdictKind.STRUCTURE:
        return True
    return verdict.kind in _CONTRADICTING and not _is_left_to_boards(verdict)


def _is_left_to_boards(verdict: Verdict) -> bool:
    """Whether its change is material but proves nothing, as boards alone may explain it."""
    basis = verdict.comparison.basis if verdict.comparison is not None else None
    if basis is None or abs(basis.difference) < basis.material:
        return False
    compared = [run.board for run in basis.runs if run.is_compared and not run.is_new]
    return boards_may_explain(basis.difference, compared, [run.board for run in basis.runs if run.is_new])


def _join_part(verdict: Verdict, proof: str) -> Verdict:
    if not proof or verdict.kind is VerdictKind.STRUCTURE:
        return verdict
    if _contradicts(verdict):
        return replace(verdict, sentence=f"{verdict.sentence}; {proof}: what else a round does has changed")
    found = verdict.comparison
    change = "" if found is None else f": {percent(found.ratio - 1, error=found.half_width)}"
    sentence = f"{verdict.subject.label}: {proof}; timed with its case{change}"
    return replace(verdict, kind=VerdictKind.IDENTICAL, sentence=sentence)


def describe_identities(state: GateState, timed: Sequence[Verdict]) -> tuple[str, ...]:
    """Sentences on what the audit saw, and on cases without an identity.

    Args:
        state: at the end of a session.
        timed: the verdicts by time, of proven cases, too.
    """
    audit = [verdict for verdict in timed if verdict.subject.case in state.proven and not verdict.subject.part]
    notes = []
    if audit:
        kinds = Counter(one.kind.value for one in audit if one.kind is not VerdictKind.INCONCLUSIVE)
        seen = [*(f"{times} {kind}" for kind, times in kinds.items()), *_say_changes(audit)]
        notes.append(
            f"audit: {count(len(audit), 'identical case')} timed all the same: {', '.join(seen) or 'no verdict'}"
            + (f"; {_BOARDS_MAY_DIFFER}" if any(map(_is_left_to_boards, audit)) else "")
        )
    notes += [
        f"IDENTITY AND TIME CONTRADICT EACH OTHER: {_prove(state, one.subject.case)}, but {one.kind.value} "
        f"by time: {one.sentence}; report this with the session's folder, and measure with "
        "--nsight-no-identity until it is explained"
        for one in audit
        if _contradicts(one)
    ]
    return (*notes, *_describe_unidentified(state))


def _say_changes(audit: Sequence[Verdict]) -> list[str]:
    changes = [one.comparison.ratio - 1 for one in audit if one.comparison is not None]
    ends = dict.fromkeys(percent(change) for change in (min(changes), max(changes))) if changes else {}
    return [f"change {' to '.join(ends)}"] if ends else []


def _describe_unidentified(state: GateState) -> list[str]:
    """Sentences on cases that pass and have no identity in this tree, or that have one in this tree only."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    details: dict[tuple[str, str], str] = {}
    for case in filter(state.has_passed, state.plan.case_ids):
        place, why = "", _why_none(state, case)
        if not why and case in state.other.identities and case not in state.other.absent:
            place, why = f" in {state.other.short_commit}", state.other.identities[case].why_none
        if not why:
            continue
        # The values that differ, and what a failed test says, are each case's own.
        is_failure = why.startswith(FAILED_IN_PASS)
        reason = (place, FAILED_IN_PASS if is_failure else why.partition(" (")[0])
        by_reason.setdefault(reason, []).append(Subject(case).label)
        details.setdefault(reason, why.removeprefix(FAILED_IN_PASS) if is_failure else "")
    notes = [
        f"{count(len(cases), 'case')} without an identity{place} ({name_cases(cases)}): {why}{details[place, why]}"
        for (place, why), cases in by_reason.items()
    ]
    # One note is enough for all reasons.
    return [*notes[:-1], *(f"{note}; {_UNIDENTIFIED_ARE_TIMED}" for note in notes[-1:])]


def _why_none(state: GateState, case: str) -> str:
    """Why a case has no identity, or none that counts; "" if it has one, or if the pass has not run it."""
    if case not in state.identities:
        return ""
    if state.identities[case].digest and not has_passed_once(state, case):
        failed = [one for one in state.identity_reports.get(case, ()) if one["outcome"] == "failed"]
        return describe_failed(failed[0]) if failed else ""
    return state.identities[case].why_none
