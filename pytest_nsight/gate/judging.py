"""Turns the state into verdicts, or into a save's changes: compares each subject's new and stored runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_nsight.baselines.comparability import ComparableRuns, describe_changes, find_comparable
from pytest_nsight.gate.state import GateState
from pytest_nsight.judge.board_groups import find_board_groups
from pytest_nsight.judge.code_changes import describe_change
from pytest_nsight.judge.environment_checks import explain_unfit
from pytest_nsight.judge.judge import judge, suspects
from pytest_nsight.judge.location import explain_no_level, typical_ns
from pytest_nsight.judge.structure import compare_structure
from pytest_nsight.judge.subject_runs import SubjectRuns
from pytest_nsight.judge.wording import write_diff, write_names
from pytest_nsight.model.identity import DEVICE_METRICS, READING, Identity
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.units import count, duration, durations, percent
from pytest_nsight.model.values import Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import Verdict, VerdictKind

_CLAIMS_UNCHECKED = "the marks' claims were not checked: they are about GPU kernels, and no GPU was measured"


class StoredRuns:
    """The runs that baselines hold, by subject."""

    def __init__(self, runs: Mapping[Subject, Sequence[RunSummary]] | None = None) -> None:
        self._runs = dict(runs or {})
        self._comparable: dict[tuple[Subject, tuple[tuple[str, str], ...]], ComparableRuns] = {}

    @property
    def all(self) -> tuple[RunSummary, ...]:
        """Every run, comparable or not."""
        return tuple(run for runs in self._runs.values() for run in runs)

    def of(self, subject: Subject, environment: Mapping[str, str]) -> ComparableRuns:
        """The stored runs of a subject that were measured like the new ones; else a sentence on why none were.

        Args:
            subject: what was measured.
            environment: of its new runs.
        """
        # Cached, because every look asks for the same runs.
        key = (subject, tuple(sorted(environment.items())))
        if key not in self._comparable:
            self._comparable[key] = find_comparable(self._runs.get(subject, ()), environment)
        return self._comparable[key]

    def newest_identity(self, case: str) -> Identity | None:
        """The identity of the newest stored run that has one, comparable or not."""
        found = [run.identity for run in self._runs.get(Subject(case), ()) if run.identity is not None]
        return found[-1] if found else None

    def lacks_identity(self, case: str) -> bool:
        """Whether the newest session that stored runs of the case stored some without an identity."""
        runs = self._runs.get(Subject(case), ())
        return any(run.identity is None for run in runs if run.session == runs[-1].session)

    @property
    def has_identities(self) -> bool:
        """Whether a run has an identity that a new one can be compared with."""
        return any(run.identity is not None and run.identity.reading == READING for run in self.all)


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
    subjects = []
    for subject, new in sorted(
        _group(state.accepted).items(), key=lambda item: (order[item[0].case], item[0].part)
    ):
        environment = new[-1].environment
        if other.commit:
            baseline, incomparable = other.runs_of(subject), other.explain_incomparable(subject, environment)
        else:
            found = stored.of(subject, environment)
            baseline, incomparable = found.runs, found.why_none
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
                absent=other.explain_absent(subject) if other.commit and not baseline else "",
                cause=_find_cause(state, stored, subject.case),
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


def _list_canaries(state: GateState, stored: StoredRuns) -> tuple[SubjectRuns, ...]:
    """New and compared runs of each canary, in the order of their names."""
    canaries = []
    for subject, new in sorted(_group(state.canaries).items()):
        compared = StoredRuns({subject: state.other.runs_of(subject)}) if state.other.commit else stored
        found = compared.of(subject, new[-1].environment)
        canaries.append(SubjectRuns(subject, Policy(), found.runs, new, found.why_none))
    return tuple(canaries)


def _group(summaries: Sequence[RunSummary]) -> dict[Subject, tuple[RunSummary, ...]]:
    groups: dict[Subject, list[RunSummary]] = {}
    for summary in summaries:
        groups.setdefault(summary.subject, []).append(summary)
    return {subject: tuple(runs) for subject, runs in groups.items()}


def list_saved(state: GateState, stored: StoredRuns) -> tuple[Verdict, ...]:
    """A verdict SAVED for each subject whose runs become baselines; its sentence says what that changes.

    Args:
        state: what was measured.
        stored: what the baselines hold.
    """
    return tuple(_describe(subject) for subject in list_subjects(state, stored))


def list_unfit(state: GateState) -> Mapping[Subject, str]:
    """Case -> why its new runs make a poor baseline, for those that do, in the order of the cases."""
    found = {}
    for subject in list_subjects(state, StoredRuns()):
        if subject.subject.part:
            continue
        why = explain_unfit(subject.new) or explain_no_level(subject.new, _shown_metric(subject))
        if why:
            found[subject.subject] = why
    return found


def withdraw(verdict: Verdict) -> Verdict:
    """The verdict SAVED of a subject whose runs did not become a baseline after all."""
    sentence = f"{verdict.subject.label}: measured, not stored"
    return replace(verdict, kind=VerdictKind.NOT_SAVED, sentence=sentence)


def list_measured(state: GateState, stored: StoredRuns) -> tuple[Verdict, ...]:
    """A verdict MEASURED for each subject of a shard: its runs are judged together with those of the others."""
    found = []
    for subject in list_subjects(state, stored):
        metric = _shown_metric(subject)
        now_ns = typical_ns(subject.new, metric)
        runs = count(len(subject.new), "run")
        sentence = f"{subject.subject.label}: {duration(now_ns)} in {runs}; the joined shards are judged"
        found.append(Verdict(subject.subject, VerdictKind.MEASURED, sentence, now_ns, metric=metric))
    return tuple(found)


def _shown_metric(subject: SubjectRuns) -> str:
    metric = subject.policy.metric
    return metric if metric in subject.new[0].rounds else next(iter(subject.new[0].rounds))


def _describe(subject: SubjectRuns) -> Verdict:
    metric = _shown_metric(subject)
    now_ns = typical_ns(subject.new, metric)
    runs = count(len(subject.new), "run")
    label = subject.subject.label
    newest = _newest_session([run for run in subject.baseline if metric in run.rounds])
    if not newest:
        sentence = f"{label}: {runs} of {duration(now_ns)} stored, the first for this case"
        return Verdict(subject.subject, VerdictKind.SAVED, sentence, now_ns, metric=metric)
    before_ns = typical_ns(newest, metric)
    change = percent(now_ns / before_ns - 1) if before_ns else "from nothing"
    found = compare_structure(newest, subject.new, family)
    diff = f"; {write_diff(found.changes)}" if found.changes else ""
    sentence = f"{label}: {durations(before_ns, now_ns)} ({change}), {runs} stored{diff}"
    return Verdict(
        subject.subject,
        VerdictKind.SAVED,
        sentence,
        now_ns,
        changes=found.changes,
        metric=metric,
        before_ns=before_ns,
        listing=diff,
    )


def _newest_session(runs: Sequence[RunSummary]) -> list[RunSummary]:
    newest = max(runs, key=lambda run: (run.recorded, run.run), default=None)
    return [run for run in runs if newest is not None and run.session == newest.session]
