"""The identity pass in the loop: its processes, what their records add to the state, and what is stored of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_nsight.gate.compared_identities import was_timed
from pytest_nsight.gate.process_reports import add_run, join_reports, join_warnings
from pytest_nsight.gate.state import GateState, PlannedProcess, SessionPlan
from pytest_nsight.model.identity import Identity
from pytest_nsight.model.values import RunSummary, Subject
from pytest_nsight.protocol.job import OTHER_TREE, THIS_TREE, Assignment
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.phase_reports import first_line_of
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd

_MOST_NAMED = 3
_LONGEST_MESSAGE = 200

FAILED_IN_PASS = "its test failed in the identity pass"


def plan_identities(session: SessionPlan) -> tuple[PlannedProcess, ...]:
    """One process for each tree; none for parallel tests, whose single ranks launch only a part of a case."""
    assignment = Assignment(tuple(case.id for case in session.cases if case.ranks == 1), identifies=True)
    trees = (OTHER_TREE, THIS_TREE) if session.is_paired else (THIS_TREE,)
    return tuple(PlannedProcess(0, replace(assignment, tree=tree)) for tree in trees) if assignment.cases else ()


def absorb_identities(state: GateState, processes: Sequence[MeasuredProcess]) -> GateState:
    """The state with the findings of an identity pass; if it failed, its cases have no identity and are timed.

    Args:
        state: without the process in its pending ones.
        processes: those of one tree, each with some of its cases, or in a replay those of both trees.
    """
    for process in processes:
        manifest = replace(process.manifest, identities=_with_failed(process.manifest))
        state = add_run(state, manifest).with_notes(_describe_failure(process))
        state = replace(state, is_interrupted=state.is_interrupted or process.end is ProcessEnd.INTERRUPTED)
        if manifest.tree == OTHER_TREE:
            state = replace(state, other=state.other.add_identities(manifest))
            continue
        ended = [case for case in manifest.ended if case in process.manifest.identities]
        state = replace(
            state,
            identities={**state.identities, **manifest.identities},
            claims={**state.claims, **manifest.claims},
            identity_reports=join_reports(state.identity_reports, manifest, ended),
            warnings=join_warnings(state.warnings, manifest),
        )
    return replace(state, is_identified=not any(process.assignment.identifies for process in state.pending))


def _with_failed(manifest: Manifest) -> dict[str, Identity]:
    """What a process of the pass found, and why cases whose tests failed in it have no identity."""
    # Why a process was left unusable is a note of its own.
    lost = manifest.process_failure.case if manifest.process_failure is not None else ""
    failed = {
        one.case: Identity(why_none=describe_failed(one.report))
        for one in manifest.reports
        if one.report["outcome"] == "failed" and one.case != lost
    }
    return {**failed, **manifest.identities}


def describe_failed(report: Mapping[str, object]) -> str:
    """The reason of a case whose test failed in the pass: FAILED_IN_PASS, and what it says."""
    return f"{FAILED_IN_PASS}: {first_line_of(report.get('longrepr'))[:_LONGEST_MESSAGE] or 'no message'}"


def _describe_failure(process: MeasuredProcess) -> str:
    """A sentence on the cases that a failed pass leaves to be timed; "" if it did not fail."""
    fault = process.manifest.identity_fault or process.failure
    if not fault:
        return ""
    launches, cases = "launches", process.cases or ()
    if 0 < len(cases) <= _MOST_NAMED:
        launches = f"launches of {', '.join(Subject(case).label for case in cases)}"
    return (
        f"{launches} were not identified, so these cases are timed: {fault} "
        "(--nsight-no-identity leaves the pass out)"
    )


def attach_identities(state: GateState) -> tuple[RunSummary, ...]:
    """The accepted runs; a run of a whole case gets the identity if it launched what the identity pass saw.

    An autotuner may have chosen another configuration in the run's process than in the identity pass.
    """
    return tuple(
        replace(run, identity=identity)
        if (identity := state.identities.get(run.subject.case)) and not run.subject.part and _fits(run, identity)
        else run
        for run in state.accepted
    )


def _fits(run: RunSummary, identity: Identity) -> bool:
    if not identity.digest or not run.is_stable:
        return False
    if any(use.shape.kind == "graph" for use in run.shapes) or not identity.launches:
        # The launches inside a graph that was traced as a whole are not visible.
        return True
    return was_timed(identity.expand(), run)
