"""Turns the state into verdicts: each subject's new runs beside the runs that they are compared with. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_nsight.baselines.comparability import describe_changes
from pytest_nsight.gate.compared_identities import compare_identities, prove_part
from pytest_nsight.gate.state import GateState
from pytest_nsight.gate.stored_runs import StoredRuns, group_by_subject, newest_session
from pytest_nsight.judge.board_groups import find_board_groups
from pytest_nsight.judge.code_changes import describe_change
from pytest_nsight.judge.judge import judge, suspects
from pytest_nsight.judge.structure import WHY_VARYING, vary_beyond_choices
from pytest_nsight.judge.subject_runs import SubjectRuns
from pytest_nsight.judge.wording import write_names
from pytest_nsight.model.identity import DEVICE_METRICS, READING
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.units import count
from pytest_nsight.model.values import Policy, Subject
from pytest_nsight.model.verdicts import Verdict

_CLAIMS_UNCHECKED = "the marks' claims were not checked: they are about GPU kernels, and no GPU was measured"


def judge_state(state: GateState, stored: StoredRuns) -> tuple[Verdict, ...]:
    """The verdicts, in the order of the cases."""
    return judge(list_subjects(state, stored), family=family, canaries=_list_canaries(state, stored))


def find_suspects(state: GateState, stored: StoredRuns) -> tuple[Subject, ...]:
    """The subjects whose verdict more runs may change."""
    subjects, canaries = list_subjects(state, stored), _list_canaries(state, stored)
    settle = state.plan.reruns_inconclusive
    return suspects(subjects, family=family, settle=settle, canaries=canaries, proven=state.proven.keys())


def find_groups_of_boards(state: GateState, stored: StoredRuns) -> Mapping[str, str]:
    """Board -> its group, as far as canaries show; the boards of a group time alike."""
    return find_board_groups(_list_canaries(state, stored))


def list_subjects(state: GateState, stored: StoredRuns) -> tuple[SubjectRuns, ...]:
    """New and compared runs of each subject, in the order of the cases."""
    # The claims of proven cases are settled: a time that contradicts the proof must not show up as a failed claim.
    policies = {
        case.id: case.policy.without_claims() if case.id in state.proven else case.policy
        for case in state.plan.cases
    }
    order = {case: position for position, case in enumerate(policies)}
    limits, other = state.limits, state.other
    identities = compare_identities(state, stored) if state.plan.skips_identical else {}
    subjects = []
    for subject, new in sorted(
        group_by_subject(state.accepted).items(), key=lambda item: (order[item[0].case], item[0].part)
    ):
        environment = new[-1].environment
        if other.commit:
            baseline, incomparable = other.runs_of(subject), other.explain_incomparable(subject, environment)
            absent = other.explain_absent(subject)
        else:
            found = stored.of(subject, environment)
            baseline, incomparable = found.runs, found.why_none
            absent = stored.explain_absent(subject)
        proof = prove_part(identities.get(subject.case), subject.part, new, baseline)
        subjects.append(
            SubjectRuns(
                subject=subject,
                policy=policies[subject.case],
                baseline=baseline,
                new=new,
                incomparable=incomparable,
                limits=limits,
                pairs=() if subject.part else state.pairs.get(subject.case, ()),
                against=other.short_commit,
                absent="" if baseline else absent,
                cause="" if proof else _find_cause(state, stored, subject.case),
                proof=proof,
            )
        )
    return tuple(subjects)


def _find_cause(state: GateState, stored: StoredRuns, case: str) -> str:
    """How the launches of a case differ from the compared ones, in words."""
    compared = state.other.identities.get(case) if state.other.commit else stored.newest_identity(case)
    return describe_change(compared, state.identities.get(case))


def list_notes(state: GateState, stored: StoredRuns) -> tuple[str, ...]:
    """Sentences on what differs from the baseline without making it incomparable, and on claims left unchecked."""
    subjects = list_subjects(state, stored)
    sentences = []
    if not state.other.commit:
        sentences += [describe_changes(subject.baseline, subject.new[-1].environment) for subject in subjects]
        sentences += [_describe_other_readings(state, stored), _describe_unidentified(state, stored)]
        sentences += [_describe_older_baselines(subjects, stored), _describe_varying_baselines(subjects)]
    if any(subject.policy.has_claims and not subject.new[0].ran_on_gpu for subject in subjects):
        sentences.append(_CLAIMS_UNCHECKED)
    return tuple(dict.fromkeys(sentence for sentence in sentences if sentence))


def _describe_other_readings(state: GateState, stored: StoredRuns) -> str:
    if not state.plan.skips_identical or (state.plan.times_all_identical and not state.identities):
        return ""
    others = 0
    for case in state.plan.cases:
        known, new = stored.newest_identity(case.id), state.identities.get(case.id)
        reading = new.reading if new is not None and new.digest else READING
        others += known is not None and known.reading != reading and case.policy.metric in DEVICE_METRICS
    if not others:
        return ""
    return (
        f"what {count(others, 'stored case')} launched was read by another version of pytest-nsight and cannot be "
        "compared, so all of it is timed; --nsight-save stores it anew"
    )


def _describe_unidentified(state: GateState, stored: StoredRuns) -> str:
    names = [
        Subject(case.id).label
        for case in state.plan.cases
        if case.id in state.identities
        and state.identities[case.id].digest
        and case.policy.metric in DEVICE_METRICS
        and stored.lacks_identity(case.id)
    ]
    if not names:
        return ""
    return (
        f"stored runs of {count(len(names), 'case')} have no identity ({write_names(names)}), so these are timed: "
        "the runs launched other kernels than their identity pass did, for example because an autotuner chose "
        "again, or were saved without an identity pass; --nsight-save stores the identity if both agree"
    )


def _describe_older_baselines(subjects: Sequence[SubjectRuns], stored: StoredRuns) -> str:
    """A sentence on cases that are judged by what an older save stored, because the last one failed."""
    failed = [
        stored.failed_saves[subject.subject.case]
        for subject in subjects
        if subject.baseline and not subject.subject.part and subject.subject.case in stored.failed_saves
    ]
    if not failed:
        return ""
    names = write_names([Subject(one.case).label for one in failed])
    verb = "is" if len(failed) == 1 else "are"
    return (
        f"{count(len(failed), 'case')} ({names}) {verb} judged by runs that an older save stored: "
        f"{failed[0].sentence}; save again with --nsight-save"
    )


def _describe_varying_baselines(subjects: Sequence[SubjectRuns]) -> str:
    """A sentence on cases that are judged on time alone, because their stored runs launch differently."""
    names = [
        one.subject.label
        for one in subjects
        if not one.subject.part and one.is_comparable and vary_beyond_choices(newest_session(one.baseline), family)
    ]
    if not names:
        return ""
    return (
        f"launches of {count(len(names), 'case')} ({write_names(names)}) are not compared, as those stored "
        f"differ by round or by run: {WHY_VARYING}"
    )


def _list_canaries(state: GateState, stored: StoredRuns) -> tuple[SubjectRuns, ...]:
    """New and compared runs of each canary, in the order of their names."""
    canaries = []
    for subject, new in sorted(group_by_subject(state.canaries).items()):
        compared = StoredRuns({subject: state.other.runs_of(subject)}) if state.other.commit else stored
        found = compared.of(subject, new[-1].environment)
        against = state.other.short_commit
        canaries.append(SubjectRuns(subject, Policy(), found.runs, new, found.why_none, against=against))
    return tuple(canaries)
