"""What a save changes: of each subject the stored time and launches beside the new ones. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pytest_nsight.gate.judging import StoredRuns, list_subjects
from pytest_nsight.gate.state import GateState
from pytest_nsight.judge.structure import compare_structure
from pytest_nsight.judge.subject_runs import SubjectRuns
from pytest_nsight.judge.wording import write_diff
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.units import count, duration, durations, percent
from pytest_nsight.model.values import RunSummary
from pytest_nsight.model.verdicts import Verdict, VerdictKind


def list_saved(state: GateState, stored: StoredRuns) -> tuple[Verdict, ...]:
    """A verdict SAVED for each subject whose runs become baselines; its sentence says what that changes.

    Args:
        state: what was measured.
        stored: what the baselines hold.
    """
    return tuple(_describe(subject) for subject in list_subjects(state, stored))


def _describe(subject: SubjectRuns) -> Verdict:
    metric = subject.policy.metric
    metric = metric if metric in subject.new[0].rounds else next(iter(subject.new[0].rounds))
    now_ns = _typical_ns(subject.new, metric)
    runs = count(len(subject.new), "run")
    label = subject.subject.label
    newest = _newest_session([run for run in subject.baseline if metric in run.rounds])
    if not newest:
        sentence = f"{label}: {runs} of {duration(now_ns)} stored, the first for this case"
        return Verdict(subject.subject, VerdictKind.SAVED, sentence, now_ns, metric=metric)
    before_ns = _typical_ns(newest, metric)
    change = percent(now_ns / before_ns - 1) if before_ns else "from nothing"
    found = compare_structure(newest, subject.new, family)
    diff = f"; {write_diff(found.changes)}" if found.changes else ""
    sentence = f"{label}: {durations(before_ns, now_ns)} ({change}), {runs} stored{diff}"
    return Verdict(subject.subject, VerdictKind.SAVED, sentence, now_ns, changes=found.changes, metric=metric)


def _typical_ns(runs: Sequence[RunSummary], metric: str) -> float:
    return float(statistics.median_high([statistics.median_high(run.rounds[metric]) for run in runs]))


def _newest_session(runs: Sequence[RunSummary]) -> list[RunSummary]:
    newest = max(runs, key=lambda run: (run.recorded, run.run), default=None)
    return [run for run in runs if newest is not None and run.session == newest.session]
