"""Two sets of runs side by side: each case is judged as the gate judges it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pytest_nsight.baselines.comparability import find_comparable
from pytest_nsight.compare.changes import Change, Changes, Group, Quantity
from pytest_nsight.compare.sources import RunSource
from pytest_nsight.judge.judge import judge
from pytest_nsight.judge.subject_runs import SubjectRuns
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.values import DEFAULT_BAND, Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import Verdict


def compare_runs(before: RunSource, after: RunSource, band: float | None) -> Changes:
    """What changed from stored runs to other runs, case by case.

    Args:
        before: the baseline.
        after: the optimized runs.
        band: change that counts, as a ratio; None for the default.

    Raises:
        UsageError: they have no case in common.
    """
    shared = [subject for subject in sorted(after.runs) if subject in before.runs]
    if not shared:
        raise UsageError(f"{before.title} and {after.title} have no case in common; compare two of one test suite")
    policy = Policy(band=DEFAULT_BAND if band is None else band)
    verdicts = judge(
        [_pair(subject, policy, before, after) for subject in shared if not subject.is_canary],
        canaries=[_pair(subject, policy, before, after) for subject in shared if subject.is_canary],
    )
    alone = [
        _row_of_one(subject, before.runs.get(subject, ()), after.runs.get(subject, ()))
        for subject in sorted({*before.runs, *after.runs} - set(shared))
        if not subject.is_canary
    ]
    missing = [subject.label for subject in sorted(before.runs) if subject not in after.runs]
    return Changes(
        before=before.title,
        after=after.title,
        rows=(*map(_row, verdicts), *alone),
        regressions=tuple(verdict.sentence for verdict in verdicts if verdict.kind.fails),
        notes=(f"only in {before.title}: {', '.join(missing)}",) if missing else (),
    )


def _pair(subject: Subject, policy: Policy, before: RunSource, after: RunSource) -> SubjectRuns:
    new = after.runs[subject]
    stored = find_comparable(before.runs[subject], new[-1].environment)
    return SubjectRuns(subject, policy, stored.runs, new, incomparable=stored.why_none)


def _row(verdict: Verdict) -> Change:
    found = verdict.comparison
    if found is None:
        return Change(
            Group.CASE, verdict.subject.label, Quantity.TIME, None, verdict.now_ns, verdict=verdict.kind.value
        )
    return Change(
        group=Group.CASE,
        name=verdict.subject.label,
        quantity=Quantity.TIME,
        before=found.baseline_ns,
        after=found.now_ns,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        verdict=verdict.kind.value,
    )


def _row_of_one(subject: Subject, before: Sequence[RunSummary], after: Sequence[RunSummary]) -> Change:
    """The row of a case that only one of the two has."""
    return Change(Group.CASE, subject.label, Quantity.TIME, _median(before), _median(after))


def _median(runs: Sequence[RunSummary]) -> float | None:
    """Median kernel time over the rounds of all runs."""
    rounds = [duration for run in runs for duration in run.rounds.get("kernel", ())]
    return float(statistics.median(rounds)) if rounds else None
