"""What a session that judges nothing says of its runs: what a save changes, and what a shard has measured. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_nsight.gate.judging import list_subjects
from pytest_nsight.gate.state import GateState
from pytest_nsight.gate.stored_runs import StoredRuns, newest_session
from pytest_nsight.judge.environment_checks import explain_unfit
from pytest_nsight.judge.location import explain_no_level, locate_all, typical_ns
from pytest_nsight.judge.prepared import find_other_metric
from pytest_nsight.judge.structure import compare_structure, vary_beyond_choices
from pytest_nsight.judge.subject_runs import SubjectRuns
from pytest_nsight.judge.wording import write_diff
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.units import count, duration, durations, percent
from pytest_nsight.model.values import Subject
from pytest_nsight.model.verdicts import Verdict, VerdictKind


def list_saved(state: GateState, stored: StoredRuns) -> tuple[Verdict, ...]:
    """A verdict SAVED for each subject whose runs become baselines; its sentence says what that changes.

    Args:
        state: what was measured.
        stored: what the baselines hold.
    """
    return tuple(_describe(subject) for subject in list_subjects(state, stored))


def list_unfit(state: GateState) -> Mapping[Subject, str]:
    """Subject -> why its new runs make a poor baseline, for those that do, in the order of the cases."""
    found = {}
    for subject in list_subjects(state, StoredRuns()):
        if subject.subject.part:
            continue
        why = explain_unfit(subject.new) or explain_no_level(subject.new, _shown_metric(subject))
        if why:
            found[subject.subject] = why
    return found


def list_untimed(state: GateState) -> Mapping[Subject, tuple[str, str]]:
    """Case whose metric has no time in any run -> that metric, and one to gate instead, "" if there is none."""
    return {
        one.subject: (one.policy.metric, find_other_metric(one.new, one.policy.metric))
        for one in list_subjects(state, StoredRuns())
        if not one.subject.part and not locate_all(one.new, one.policy.metric).locations
    }


def list_varying(state: GateState) -> tuple[Subject, ...]:
    """The cases that launch otherwise from run to run, though not from round to round.

    Their structure cannot be compared later, unless nothing differs but what an autotuner or a library chose.
    """
    return tuple(
        one.subject
        for one in list_subjects(state, StoredRuns())
        if not one.subject.part and all(run.is_stable for run in one.new) and vary_beyond_choices(one.new, family)
    )


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
    newest = newest_session([run for run in subject.baseline if metric in run.rounds])
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
