"""What the record of a process adds to the state: its results, and the processes that measure some cases again.

Which cases these are is decided in `case_outcomes.py`. Where almost every process fails, the machine is given up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pytest_nsight.gate.case_outcomes import CaseOutcomes, note_passed, sort_cases
from pytest_nsight.gate.identity_records import absorb_identities
from pytest_nsight.gate.own_failures import has_only_passed, list_failed
from pytest_nsight.gate.process_reports import add_run, join_reports, join_warnings
from pytest_nsight.gate.state import GateState, PlannedProcess
from pytest_nsight.model.values import InterleavedPairs, RunSummary, Subject
from pytest_nsight.protocol.job import OTHER_TREE
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd

NOTHING_MEASURED = (
    "nothing was measured: the mark nsight is for test functions whose call raises nothing, and not for methods of "
    "unittest, doctests, or coroutines that no plugin runs; write the test so, or take the mark away"
)

_Value = TypeVar("_Value")

MOST_FAILURES_ALONE = 6
"""If this many processes in a row fail with a single case each, and then one more, the machine is at fault.

The process after them measures all that is left. It counts as that one more only if it fails with its first case.
Cases are measured in random order. Where 7 of 14 tests end their process, these come first in one of 3432 orders.
"""


def absorb(state: GateState, processes: Sequence[MeasuredProcess]) -> GateState:
    """The state after the next pending process, or after several that ran side by side as one.

    Args:
        state: with at least one pending process.
        processes: what was measured; empty if a recording has no more, which ends the loop.
    """
    planned, *rest = state.pending
    if planned.assignment.identifies:
        return absorb_identities(replace(state, pending=tuple(rest)), processes)
    if not processes:
        # Cases that wait for another process will not get one.
        reasons = {case: last.describe() for case, last in state.failed_tries.items()}
        return replace(state.with_problems(reasons), pending=(), is_exhausted=True)
    again: list[tuple[str, ...]] = []
    latest = ""
    for process in processes:
        cases = _list_asked(process, planned.assignment.cases)
        outcome = sort_cases(process, cases, list_failed(state), state.failed_tries)
        state = _add(state.with_notes(*process.notes, process.failure, process.trace_error), process, outcome)
        again += outcome.again
        latest = next(iter((*outcome.failed.values(), *(one.describe() for one in outcome.tries.values()))), latest)
    retries = tuple(PlannedProcess(planned.run, replace(planned.assignment, cases=group)) for group in again)
    if state.failures_alone >= MOST_FAILURES_ALONE:
        why = (
            f"not measured, as {state.failures_alone} processes in a row failed with one case each, so the machine "
            f"seems to be at fault; the last failure: {latest}"
        )
        state = state.with_problems({case: why for retry in retries for case in retry.assignment.cases})
    # If the process completed, the next one has already begun with the announced cases.
    begun = 1 if all(process.end is ProcessEnd.COMPLETE for process in processes) else 0
    later = (*rest[1:], *retries) if begun else (*retries, *rest)
    return replace(
        state,
        pending=(*rest[:begun], *_leave_out(later, state.other.absent, {*state.problems, *list_failed(state)})),
        is_interrupted=any(process.end is ProcessEnd.INTERRUPTED for process in processes),
    )


def _list_asked(process: MeasuredProcess, planned: Sequence[str]) -> list[str]:
    """The planned cases that a process had to measure; a recorded process may have had others than planned now.

    In the order of the process, so that a replay divides them as the session did.
    """
    assigned, wanted = process.manifest.assigned, set(planned)
    order = planned if assigned is None else [case for case in assigned if case in wanted]
    return [case for case in order if process.cases is None or case in process.cases]


def _leave_out(
    pending: Sequence[PlannedProcess], absent: Collection[str], problems: Collection[str]
) -> tuple[PlannedProcess, ...]:
    """The pending processes without cases that need no more runs, and without processes that have none left.

    Args:
        pending: processes, the next one first.
        absent: cases that the other tree does not have: one pair of them is enough.
        problems: cases that cannot be judged, or have failed by themselves.
    """
    kept = []
    for process in pending:
        unwanted = {*problems, *(absent if process.run > 1 else ())}
        cases = tuple(case for case in process.assignment.cases if case not in unwanted)
        if cases:
            kept.append(replace(process, assignment=replace(process.assignment, cases=cases)))
    return tuple(kept)


def _add(state: GateState, process: MeasuredProcess, outcome: CaseOutcomes) -> GateState:
    state = add_run(state, process.manifest)
    state = replace(state, bytes_per_s=process.bytes_per_s or state.bytes_per_s)
    if process.manifest.tree == OTHER_TREE:
        return _add_other_tree(state, process, outcome)
    state = _add_pairs(_add_canaries(state, process), process)
    earlier = state.failed_tries
    reports = join_reports(state.reports, process.manifest, outcome.complete)
    state = replace(
        state,
        reports=reports,
        warnings=join_warnings(state.warnings, process.manifest),
        summaries=(*state.summaries, *(one for one in process.summaries if one.subject.case in outcome.complete)),
        timelines={**state.timelines, **_pick(process.timelines, outcome.complete)},
        metrics={**state.metrics, **_pick(process.metrics, outcome.complete)},
        failures_alone=0 if outcome.complete else state.failures_alone + bool(outcome.failed),
        failed_tries={
            **{case: last for case, last in earlier.items() if case not in outcome.complete},
            **outcome.tries,
        },
    )
    state = state.with_notes(*note_passed(earlier, process.manifest, outcome.complete))
    measured = {summary.subject.case for summary in process.summaries}
    nothing = {
        case: process.problems.get(case, NOTHING_MEASURED)
        for case in outcome.complete
        if case not in measured and state.has_passed(case) and has_only_passed(process.manifest, case)
    }
    return state.with_problems({**outcome.failed, **nothing})


def _pick(values: Mapping[str, _Value], cases: Sequence[str]) -> dict[str, _Value]:
    return {case: values[case] for case in cases if case in values}


def _add_other_tree(state: GateState, process: MeasuredProcess, outcome: CaseOutcomes) -> GateState:
    postponed = {case for group in outcome.again for case in group}
    asked = process.cases if process.cases is not None else state.pending[0].assignment.cases
    cases = [case for case in asked if case not in postponed and case not in outcome.failed]
    other = state.other.add(process.manifest, cases, process.summaries, process.problems)
    why = f"nothing to compare with from {other.short_commit}"
    problems = {case: f"{why}: {failure}" for case, failure in outcome.failed.items()}
    return replace(state, other=other).with_problems(problems)


def _add_canaries(state: GateState, process: MeasuredProcess) -> GateState:
    """Keeps the canaries that completed, and notes the session's first canary that did not."""
    manifest = process.manifest
    whole = [one for one in process.summaries if one.subject.is_canary and one.subject.case in manifest.ended]
    state = replace(state, canaries=(*state.canaries, *whole))
    faults = {fault.case: fault.text for fault in manifest.canary_faults}
    faults.update((case, text) for case, text in process.problems.items() if Subject(case).is_canary)
    if state.faulty_canary or not faults:
        return state
    case, text = next(iter(faults.items()))
    return replace(state, faulty_canary=case).with_notes(
        f"the canary {Subject(case).label} was not measured: {text}"
    )


def _add_pairs(state: GateState, process: MeasuredProcess) -> GateState:
    """Keeps the interleaved pairs whose bodies launched the same as their cases.

    A body may act differently when the fixtures of its test are gone: then its launches differ, and the pair is no
    evidence.
    """
    manifest = process.manifest
    by_case = {one.subject.case: one for one in process.summaries if not one.subject.part}
    notes = [
        f"{one.case} and its partner were not measured in interleaved pairs: {one.text}"
        for one in manifest.pair_faults
    ]
    pairs = dict(state.pairs)
    for pair in manifest.pairs:
        alone = [by_case.get(pair.case), by_case.get(pair.partner)]
        in_turns = [by_case.get(pair.own_rounds), by_case.get(pair.partner_rounds)]
        same = [b for a, b in zip(alone, in_turns, strict=True) if a and b and _launches(a) == _launches(b)]
        if len(same) == len(in_turns):
            pairs[pair.case] = (*pairs.get(pair.case, ()), InterleavedPairs(manifest.run, same[0], same[1]))
        elif all(alone) and all(in_turns):
            notes.append(
                f"{pair.case} and its partner launch other kernels in interleaved pairs than each alone, so the "
                "claim is judged from whole runs: do their fixtures change what they run?"
            )
    return replace(state, pairs=pairs).with_notes(*notes)


def _launches(summary: RunSummary) -> dict[str, int]:
    launches: dict[str, int] = {}
    for use in summary.shapes:
        launches[use.shape.name] = launches.get(use.shape.name, 0) + use.count
    return launches
