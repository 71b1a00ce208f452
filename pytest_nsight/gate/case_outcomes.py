"""Which cases of a process count, which have failed for good, and which another process measures again.

A case whose process failed, or whose record is damaged, is measured again in a fresh process, and a suspect in a
process of its own. A test that fails by itself beside others is tried again without them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_nsight.gate.state import GateState, SerialisedReport, is_strict_xpass
from pytest_nsight.protocol.job import OTHER_TREE
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.phase_reports import EXPECTS_EXCEPTION, FAILED_FIXTURE, first_line_of, last_attempt
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd

_FAILED_BESIDE_OTHERS = "it failed beside other tests of its process"
_FAILED_AGAIN = "it failed beside other tests of several processes"


@dataclass(frozen=True, slots=True)
class CaseOutcomes:
    """What becomes of the cases of one process.

    Attributes:
        complete: cases whose result counts.
        failed: case -> why it cannot be judged, after a process of its own.
        again: groups of cases, each to be measured in another process.
        doubts: case -> why it is to be measured again.
    """

    complete: tuple[str, ...]
    failed: Mapping[str, str]
    again: tuple[tuple[str, ...], ...] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)


def list_failed(state: GateState) -> frozenset[str]:
    """The cases that have failed by themselves, for good."""
    return frozenset(case for case, reports in state.reports.items() if _any_failed(reports))


def find_own_failures(state: GateState) -> dict[str, str]:
    """Case -> why it failed without any verdict: its test failed, or there was nothing to judge."""
    found = {}
    for case in state.plan.case_ids:
        failed = [report for report in state.reports.get(case, ()) if report["outcome"] == "failed"]
        if case in state.problems:
            found[case] = state.problems[case]
        elif failed and not state.has_passed(case):
            found[case] = first_line_of(failed[0].get("longrepr")) or "its test failed"
        elif case not in state.reports:
            found[case] = "no worker process came to this test"
    return found


def expects_failure(state: GateState, case: str) -> bool:
    """Whether the test is marked xfail, so that a failing verdict is what was expected."""
    reports = [one for one in state.reports.get(case, ()) if EXPECTS_EXCEPTION not in one]
    return any("wasxfail" in report or is_strict_xpass(report.get("longrepr")) for report in reports)


def sort_cases(
    process: MeasuredProcess, cases: Sequence[str], failed: Collection[str], doubts: Mapping[str, str]
) -> CaseOutcomes:
    """Which cases count, which have failed for good, and which are measured again.

    Args:
        process: what was measured.
        cases: those that it had to measure, in its order.
        failed: cases that had failed by themselves before it, for good.
        doubts: case -> why it was to be measured again, before this process.
    """
    ended = [case for case in process.manifest.ended if case in cases]
    # A test that reports its own failure needs no record.
    damaged = [case for case in ended if case in process.problems and has_only_passed(process.manifest, case)]
    harmed: dict[str, str] = {}
    if process.manifest.tree != OTHER_TREE:
        settled = {*failed, *_list_settled(process, cases, doubts)}
        harmed = _doubt_harmed(process, _list_harmed(process, cases, settled), doubts)
    if process.end is ProcessEnd.COMPLETE and process.trace_error:
        # One of several workers; another one has failed, and nobody's record could be read.
        return _sort_failed(replace(process, failure=process.trace_error, has_died_after_tests=True), cases, (), {})
    if process.end is ProcessEnd.COMPLETE:
        return _sort_complete(process, cases, [case for case in ended if case not in harmed], damaged, harmed)
    complete = tuple(case for case in ended if process.has_trace and case not in damaged)
    if process.end is ProcessEnd.INTERRUPTED:
        return CaseOutcomes(complete, {})
    if process.has_died_after_tests:
        # Any of them may be the cause.
        return _sort_failed(process, cases, (), {})
    return _sort_failed(process, cases, tuple(case for case in complete if case not in harmed), harmed)


def _list_settled(process: MeasuredProcess, cases: Sequence[str], doubts: Mapping[str, str]) -> tuple[str, ...]:
    """The cases whose own failure counts, as it is the last try of each.

    A process that measures only what is measured again is the last try of what was no test's own failure. What had
    failed by itself is tried with others twice, as the one that harmed it may be among those, and on from there as
    long as some of them pass.
    """
    if any(case not in doubts for case in cases):
        return ()
    has_passed = any(not _has_failed(process.manifest, case) for case in cases)
    open_doubts = (_FAILED_BESIDE_OTHERS, *((_FAILED_AGAIN,) if has_passed else ()))
    return tuple(case for case in cases if not doubts[case].startswith(open_doubts))


def _list_harmed(process: MeasuredProcess, cases: Sequence[str], settled: Collection[str]) -> tuple[str, ...]:
    """The cases that failed by themselves, which one before them in their process may have caused.

    Where pytest ended at a failure (`-x`), or all ranks did, the user's order and the failure stay. The failure of
    a fixture that several tests share stays, too: pytest reports it with the last of them, which may pass alone.
    """
    manifest, lost = process.manifest, process.manifest.process_failure
    has_ended_early = process.end is ProcessEnd.COMPLETE and lost is None
    if process.is_ranked or (has_ended_early and any(case not in manifest.started for case in cases)):
        return ()
    behind_others = [case for case in manifest.started if case in cases][1:]
    unusable = {*settled, *([lost.case] if lost is not None else [])}
    return tuple(
        case
        for case in behind_others
        if case not in unusable and _has_failed(manifest, case) and not _has_failed_fixture(manifest, case)
    )


def _sort_complete(
    process: MeasuredProcess,
    cases: Sequence[str],
    ended: Sequence[str],
    damaged: Sequence[str],
    harmed: Mapping[str, str],
) -> CaseOutcomes:
    """The cases of a process that came to its end."""
    is_alone = len(cases) == 1
    lost = process.manifest.process_failure
    # A case after which the process was unusable may suffer from the cases before it in its process.
    victims = [case for case in ended if lost is not None and case == lost.case and not is_alone]
    complete = tuple(case for case in ended if case not in damaged and case not in victims)
    unstarted = tuple(case for case in cases if case not in process.manifest.started)
    # Ranks end together at the first failure: the cases after it are still to be measured.
    is_cut_short = (process.is_ranked and bool(ended)) or lost is not None
    failed = {case: process.problems[case] for case in damaged if is_alone}
    doubts = {case: process.problems[case] for case in damaged}
    doubts.update(harmed)
    if lost is not None:
        doubts.update(dict.fromkeys(victims, lost.text))
    suspects = [case for case in damaged if case not in victims and not is_alone]
    again = (
        *((case,) for case in victims),
        *_isolate(suspects),
        *_group_harmed(harmed),
        *((unstarted,) if is_cut_short and unstarted else ()),
    )
    return CaseOutcomes(complete, failed, again, doubts)


def _doubt_harmed(process: MeasuredProcess, harmed: Sequence[str], doubts: Mapping[str, str]) -> dict[str, str]:
    """Case -> why it is tried again."""
    found = {}
    for case in harmed:
        how = _FAILED_AGAIN if _has_failed_before(doubts.get(case, "")) else _FAILED_BESIDE_OTHERS
        found[case] = f"{how}: {_own_failure(process.manifest, case)}"
    return found


def _group_harmed(harmed: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """All together; at the third try the first one, which may have harmed those behind it, for itself."""
    again = [case for case, doubt in harmed.items() if doubt.startswith(_FAILED_AGAIN)]
    groups = ([case for case in harmed if case not in again], again[:1], again[1:])
    return tuple(tuple(group) for group in groups if group)


def _sort_failed(
    process: MeasuredProcess, cases: Sequence[str], complete: tuple[str, ...], harmed: Mapping[str, str]
) -> CaseOutcomes:
    """The cases of a process that failed: the one that it was running when it did is measured alone."""
    manifest = process.manifest
    failing = [case for case in cases if process.has_died_after_tests and _has_failed(manifest, case)]
    if failing and len(cases) == 1:
        # Its own failure says more than the end of its process.
        return CaseOutcomes(tuple(failing), {})
    left = [case for case in cases if case not in complete]
    has_started = any(case in manifest.started for case in cases)
    if not process.failed_in_canary and (len(cases) == 1 or not has_started):
        # Another process would fail before its first test, too.
        return CaseOutcomes(complete, dict.fromkeys(left, process.failure))
    suspects = [case for case in left if case in manifest.started and case not in manifest.ended]
    doubts = {**dict.fromkeys(suspects or left, process.failure), **harmed}
    if process.overdue in left:
        others = tuple(case for case in left if case != process.overdue)
        return CaseOutcomes(complete, {process.overdue: process.failure}, (others,) if others else (), doubts)
    rest = [case for case in left if case not in harmed]
    if suspects:
        groups = [*([case] for case in suspects), [case for case in rest if case not in suspects]]
    elif failing:
        # What failed by itself is the likeliest cause, or another test has harmed it: alone it shows which.
        groups = [*([case] for case in failing), [case for case in rest if case not in failing]]
    else:
        half = 0 if process.failed_in_canary else (len(rest) + 1) // 2
        groups = [rest[:half], rest[half:]]
    again = (*(tuple(group) for group in groups if group), *_group_harmed(harmed))
    return CaseOutcomes(complete, {}, again, doubts)


def _isolate(damaged: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The first damaged case alone, because it may have damaged the other records, and the others together."""
    return tuple(tuple(group) for group in (damaged[:1], damaged[1:]) if group)


def _has_failed_before(doubt: str) -> bool:
    return doubt.startswith((_FAILED_BESIDE_OTHERS, _FAILED_AGAIN))


def note_harmed(doubts: Mapping[str, str], manifest: Manifest, complete: Sequence[str]) -> list[str]:
    """Sentences on cases that failed beside others before, and have not failed now."""
    return [
        f"{case} {doubts[case].removeprefix('it ')}; in a fresh process it does not: another test has changed what "
        "it depends on, or it fails at random"
        for case in complete
        if _has_failed_before(doubts.get(case, "")) and not _has_failed(manifest, case)
    ]


def _has_failed(manifest: Manifest, case: str) -> bool:
    return _any_failed(_list_reports(manifest, case))


def _has_failed_fixture(manifest: Manifest, case: str) -> bool:
    return any(FAILED_FIXTURE in report for report in last_attempt(_list_reports(manifest, case)))


def _any_failed(reports: Sequence[SerialisedReport]) -> bool:
    return any(report["outcome"] == "failed" for report in last_attempt(reports))


def has_only_passed(manifest: Manifest, case: str) -> bool:
    """Whether the last attempt of a case passed in all its phases, as far as they were reported."""
    return all(report["outcome"] == "passed" for report in last_attempt(_list_reports(manifest, case)))


def _own_failure(manifest: Manifest, case: str) -> str:
    failed = [one for one in last_attempt(_list_reports(manifest, case)) if one["outcome"] == "failed"]
    return first_line_of(failed[0].get("longrepr")) or "no message"


def _list_reports(manifest: Manifest, case: str) -> list[SerialisedReport]:
    return [one.report for one in manifest.reports if one.case == case]
