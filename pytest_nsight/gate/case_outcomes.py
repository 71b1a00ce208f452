"""Which cases of a process count, which have failed for good, and which are measured again.

A test may fail only itself, never another test. So a case without a good result is measured again as long as
another test of its process may be the cause; otherwise it has failed for good.

What happened to a case                     What happens next
-----------------------------------------   ------------------------------------------------------------------------
It passed, and its record is whole          It counts.
Its test failed first in its process, on    It counts: the failure is its own.
several ranks, in the teardown of a
fixture that several tests share, or where
pytest ended (`-x`)
Its test failed, and was not the first of   All such cases are measured again together. Those that fail there, but
its process                                 for the first, are measured once more: the first of these alone, as it
                                            may be the cause, and the rest together; and so on, as long as some of
                                            them pass.
Its record is damaged                       The first such case is measured alone, as it may be the cause, and the
                                            others together. Alone, it has failed for good.
The process was unusable after it           It is measured alone, and what had not started yet together.
The process failed while it ran             It is measured alone, and what is left together. Alone, it has failed
                                            for good, and so has a case that took too long.
The process failed between two cases        What is left is measured in halves; if it was a canary, all together.
The process failed before its first case    All its cases have failed for good, as another process would fail, too.
The process failed after its last test      Nothing counts: each case whose test failed is measured alone, and the
                                            others together; if none failed, all are measured in halves.
The user interrupted the process            What is complete counts, and nothing is measured again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_nsight.gate.failed_tries import FailedTry, TryFailure
from pytest_nsight.gate.own_failures import find_message, has_failed, has_failed_fixture, has_only_passed
from pytest_nsight.protocol.job import OTHER_TREE
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd

Groups = tuple[tuple[str, ...], ...]
"""Cases, divided into those of several processes."""


@dataclass(frozen=True, slots=True)
class CaseOutcomes:
    """What becomes of the cases of one process.

    Attributes:
        complete: cases whose result counts.
        failed: case -> why it cannot be judged; it is not measured again.
        again: groups of cases, each to be measured in another process.
        tries: case -> its try in this process, if that failed and another one may follow.
    """

    complete: tuple[str, ...]
    failed: Mapping[str, str]
    again: Groups = ()
    tries: Mapping[str, FailedTry] = field(default_factory=dict)


def sort_cases(
    process: MeasuredProcess, cases: Sequence[str], failed: Collection[str], earlier: Mapping[str, FailedTry]
) -> CaseOutcomes:
    """Which cases count, which have failed for good, and which are measured again.

    Args:
        process: what was measured.
        cases: those that it had to measure, in its order.
        failed: cases whose own failure counted before it.
        earlier: case -> its last try, if that failed and this process measures the case again.
    """
    ended = [case for case in process.manifest.ended if case in cases]
    # A test that reports its own failure needs no record.
    damaged = [case for case in ended if case in process.problems and has_only_passed(process.manifest, case)]
    failing: dict[str, FailedTry] = {}
    if process.manifest.tree != OTHER_TREE:
        failing = _find_failing(process, cases, {*failed, *_list_last_tries(process, cases, earlier)}, earlier)
    if process.end is ProcessEnd.COMPLETE and process.trace_error:
        # One of several workers; another one has failed, and no worker's record could be read.
        process = replace(process, failure=process.trace_error, has_died_after_tests=True)
        return _sort_failed(process, cases, (), {}, earlier)
    if process.end is ProcessEnd.COMPLETE:
        return _sort_complete(process, cases, damaged, failing, earlier)
    complete = tuple(case for case in ended if process.has_trace and case not in damaged)
    if process.end is ProcessEnd.INTERRUPTED:
        return CaseOutcomes(complete, {})
    if process.has_died_after_tests:
        # Any of them may be the cause.
        return _sort_failed(process, cases, (), {}, earlier)
    complete = tuple(case for case in complete if case not in failing)
    return _sort_failed(process, cases, complete, failing, earlier)


def _list_last_tries(
    process: MeasuredProcess, cases: Sequence[str], earlier: Mapping[str, FailedTry]
) -> tuple[str, ...]:
    """The cases for which this process was the last try, so that their own failure counts.

    It is the last one only where all its cases were measured again. A case whose own test had failed gets two
    tries more, as the cause may be among the cases that are measured again with it, and further ones as long as
    some of them pass.
    """
    if any(case not in earlier for case in cases):
        return ()
    has_passed = any(not has_failed(process.manifest, case) for case in cases)
    return tuple(case for case in cases if not (earlier[case].is_own and (earlier[case].number == 1 or has_passed)))


def _find_failing(
    process: MeasuredProcess,
    cases: Sequence[str],
    final: Collection[str],
    earlier: Mapping[str, FailedTry],
) -> dict[str, FailedTry]:
    """The cases whose own test failed, where a test before them in their process may be the cause.

    Where pytest ended at a failure (`-x`), or all ranks did, the user's order and the failure stay. The failure of
    a fixture that several tests share stays, too: pytest reports it with the last of them, which may pass alone.

    Args:
        process: what was measured.
        cases: those that it had to measure.
        final: cases whose own failure counts in any case.
        earlier: case -> its last try, if that failed.
    """
    manifest, lost = process.manifest, process.manifest.process_failure
    has_ended_early = process.end is ProcessEnd.COMPLETE and lost is None
    if process.is_ranked or (has_ended_early and any(case not in manifest.started for case in cases)):
        return {}
    later = [case for case in manifest.started if case in cases][1:]
    kept = {*final, *([lost.case] if lost is not None else [])}
    return {
        case: FailedTry.after(earlier.get(case), TryFailure.TEST_FAILED, find_message(manifest, case))
        for case in later
        if case not in kept and has_failed(manifest, case) and not has_failed_fixture(manifest, case)
    }


def _sort_complete(
    process: MeasuredProcess,
    cases: Sequence[str],
    damaged: Sequence[str],
    failing: Mapping[str, FailedTry],
    earlier: Mapping[str, FailedTry],
) -> CaseOutcomes:
    """The cases of a process that came to its end."""
    manifest = process.manifest
    ended = [case for case in manifest.ended if case in cases and case not in failing]
    is_alone = len(cases) == 1
    lost = manifest.process_failure
    # The process was unusable after it, and a test before it may be the cause.
    stopping = [case for case in ended if lost is not None and case == lost.case and not is_alone]
    complete = tuple(case for case in ended if case not in damaged and case not in stopping)
    unstarted = tuple(case for case in cases if case not in manifest.started)
    # Ranks end together at the first failure: the cases after it are still to be measured.
    is_cut_short = (process.is_ranked and bool(ended)) or lost is not None
    failed = {case: process.problems[case] for case in damaged if is_alone}
    tries = {
        case: FailedTry.after(earlier.get(case), TryFailure.RECORD_DAMAGED, process.problems[case])
        for case in damaged
    }
    tries.update(failing)
    if lost is not None:
        tries.update(
            {case: FailedTry.after(earlier.get(case), TryFailure.PROCESS_UNUSABLE, lost.text) for case in stopping}
        )
    again = (
        *((case,) for case in stopping),
        *_isolate_first([case for case in damaged if case not in stopping and not is_alone]),
        *_group_failing(failing),
        *((unstarted,) if is_cut_short and unstarted else ()),
    )
    return CaseOutcomes(complete, failed, again, tries)


def _sort_failed(
    process: MeasuredProcess,
    cases: Sequence[str],
    complete: tuple[str, ...],
    failing: Mapping[str, FailedTry],
    earlier: Mapping[str, FailedTry],
) -> CaseOutcomes:
    """The cases of a process that failed: the one that it was running when it did is measured alone."""
    manifest = process.manifest
    failed = [case for case in cases if process.has_died_after_tests and has_failed(manifest, case)]
    if failed and len(cases) == 1:
        # Its own failure says more than the end of its process.
        return CaseOutcomes(tuple(failed), {})
    left = [case for case in cases if case not in complete]
    has_started = any(case in manifest.started for case in cases)
    if not process.failed_in_canary and (len(cases) == 1 or not has_started):
        # Another process would fail before its first test, too.
        return CaseOutcomes(complete, dict.fromkeys(left, process.failure))
    running = [case for case in left if case in manifest.started and case not in manifest.ended]
    tries = {
        case: FailedTry.after(earlier.get(case), TryFailure.PROCESS_FAILED, process.failure)
        for case in running or left
    }
    tries.update(failing)
    if process.overdue in left:
        others = tuple(case for case in left if case != process.overdue)
        return CaseOutcomes(complete, {process.overdue: process.failure}, (others,) if others else (), tries)
    rest = [case for case in left if case not in failing]
    # What failed by itself is the likeliest cause, or another test made it fail: alone it shows which.
    if alone := running or failed:
        groups = [*([case] for case in alone), [case for case in rest if case not in alone]]
    else:
        half = 0 if process.failed_in_canary else (len(rest) + 1) // 2
        groups = [rest[:half], rest[half:]]
    again = (*(tuple(group) for group in groups if group), *_group_failing(failing))
    return CaseOutcomes(complete, {}, again, tries)


def _group_failing(failing: Mapping[str, FailedTry]) -> Groups:
    """All together after their first failure; after a further one the first case alone, and the rest together."""
    first_time = tuple(case for case, found in failing.items() if found.number == 1)
    repeated = [case for case in failing if case not in first_time]
    return (*((first_time,) if first_time else ()), *_isolate_first(repeated))


def _isolate_first(cases: Sequence[str]) -> Groups:
    """The first case alone, because it may be the cause of what happened to the others, and these together."""
    return tuple(tuple(group) for group in (cases[:1], cases[1:]) if group)


def note_passed(earlier: Mapping[str, FailedTry], manifest: Manifest, complete: Sequence[str]) -> list[str]:
    """Sentences on cases whose own test failed in their last try, and has not failed now."""
    return [
        f"{earlier[case].describe(case)}; in a fresh process it does not: another test has changed what it depends "
        "on, or it fails at random"
        for case in complete
        if case in earlier and earlier[case].is_own and not has_failed(manifest, case)
    ]
