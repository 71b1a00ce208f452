"""Two sets of runs side by side: each case is judged as the gate judges it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from pytest_nsight.baselines.comparability import find_comparable
from pytest_nsight.compare.changes import Change, Changes, Group, Quantity
from pytest_nsight.compare.sources import RunSource
from pytest_nsight.judge.environment_checks import leave_out_disturbed
from pytest_nsight.judge.judge import judge
from pytest_nsight.judge.subject_runs import SubjectRuns
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.values import DEFAULT_BAND, Policy, RunSummary, Subject
from pytest_nsight.model.verdicts import Verdict


def compare_runs(before: RunSource, after: RunSource, band: float | None) -> Changes:
    """What changed from stored runs to other runs, case by case.

    Args:
        before: the baseline.
        after: the optimized runs.
        band: change that counts, as a ratio; None for that of the session, of the later one if both have one, or
            else the default.

    Raises:
        UsageError: they have no case in common.
    """
    shared = [subject for subject in sorted(after.runs) if subject in before.runs]
    if not shared:
        raise UsageError(f"{before.title} and {after.title} have no case in common; compare two of one test suite")
    policies = {subject: _choose_policy(subject, before, after, band) for subject in {*before.runs, *after.runs}}
    verdicts = judge(
        [_pair(subject, policies[subject], before, after) for subject in shared if not subject.is_canary],
        family=family,
        canaries=[_pair(subject, policies[subject], before, after) for subject in shared if subject.is_canary],
    )
    failing = [verdict for verdict in verdicts if verdict.kind.fails]
    alone = [
        _row_of_one(subject, policies[subject].metric, before.runs.get(subject, ()), after.runs.get(subject, ()))
        for subject in sorted({*before.runs, *after.runs} - set(shared))
        if not subject.is_canary
    ]
    missing = [subject.label for subject in sorted(before.runs) if subject not in after.runs]
    return Changes(
        before=before.title,
        after=after.title,
        rows=(*(_row(verdict, policies[verdict.subject].metric) for verdict in verdicts), *alone),
        regressions=tuple(verdict.sentence for verdict in failing),
        failing=tuple(verdict.kind for verdict in failing),
        notes=(f"only in {before.title}: {', '.join(missing)}",) if missing else (),
    )


def _choose_policy(subject: Subject, before: RunSource, after: RunSource, band: float | None) -> Policy:
    """The metric and band by which a session judged the case; kernel time and the default where none did."""
    found = after.policies.get(subject) or before.policies.get(subject) or Policy(band=DEFAULT_BAND)
    return found if band is None else replace(found, band=band)


def _name(subject: Subject, metric: str) -> str:
    """A case, with the metric where that is not kernel time."""
    return subject.label if metric == Policy().metric else f"{subject.label} ({metric})"


def _pair(subject: Subject, policy: Policy, before: RunSource, after: RunSource) -> SubjectRuns:
    # Of both sides alike: the gate keeps disturbed runs of a small baseline, as nothing replaces them.
    new = leave_out_disturbed(after.runs[subject], 1)
    stored = find_comparable(leave_out_disturbed(before.runs[subject], 1), new[-1].environment)
    return SubjectRuns(subject, policy, stored.runs, new, incomparable=stored.why_none)


def _row(verdict: Verdict, metric: str) -> Change:
    found, name = verdict.comparison, _name(verdict.subject, metric)
    if found is None:
        return Change(Group.CASE, name, Quantity.TIME, None, verdict.now_ns, verdict=verdict.kind.value)
    return Change(
        group=Group.CASE,
        name=name,
        quantity=Quantity.TIME,
        before=found.baseline_ns,
        after=found.now_ns,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        verdict=verdict.kind.value,
    )


def _row_of_one(subject: Subject, metric: str, before: Sequence[RunSummary], after: Sequence[RunSummary]) -> Change:
    """The row of a case that only one of the two has."""
    return Change(
        Group.CASE, _name(subject, metric), Quantity.TIME, _median(before, metric), _median(after, metric)
    )


def _median(runs: Sequence[RunSummary], metric: str) -> float | None:
    """Median duration over the rounds of all runs."""
    rounds = [duration for run in runs for duration in run.rounds.get(metric, ())]
    return float(statistics.median(rounds)) if rounds else None
