"""The identity pass in the loop: its processes, and what their records add to the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_nsight.gate.state import GateState, PlannedProcess, SerialisedReport, SessionPlan
from pytest_nsight.protocol.job import OTHER_TREE, THIS_TREE, Assignment
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd


def plan_identities(session: SessionPlan) -> tuple[PlannedProcess, ...]:
    """One process for each tree; none for ranks, which launch together, so that one is not the whole of a case."""
    assignment = Assignment(tuple(case.id for case in session.cases if case.ranks == 1), identifies=True)
    trees = (OTHER_TREE, THIS_TREE) if session.is_paired else (THIS_TREE,)
    return tuple(PlannedProcess(0, replace(assignment, tree=tree)) for tree in trees) if assignment.cases else ()


def absorb_identities(state: GateState, processes: Sequence[MeasuredProcess]) -> GateState:
    """What an identity pass found; where it failed, its cases have no identity and are timed as without it.

    Args:
        state: without the process in its pending ones.
        processes: the one, or in a replay those of both trees.
    """
    for process in processes:
        manifest = process.manifest
        fault = manifest.identity_fault or process.failure
        state = add_run(state, manifest).with_notes(
            f"launches were not identified, so what they leave open is timed: {fault}" if fault else ""
        )
        state = replace(state, is_interrupted=state.is_interrupted or process.end is ProcessEnd.INTERRUPTED)
        if manifest.tree == OTHER_TREE:
            state = replace(state, other=state.other.add_identities(manifest))
            continue
        reports = join_reports({}, manifest, [case for case in manifest.ended if case in manifest.identities])
        state = replace(state, identities=dict(manifest.identities), identity_reports=reports)
    return replace(state, is_identified=not any(process.assignment.identifies for process in state.pending))


def add_run(state: GateState, manifest: Manifest) -> GateState:
    """Takes over what is true of a whole run, and the boards of all its processes."""
    if manifest.seed is not None:
        state = replace(state, seeds={**state.seeds, manifest.run: manifest.seed})
    if fresh := [one for one in manifest.leaked_state if one.case not in state.leaked_state]:
        state = replace(state, leaked_state={**state.leaked_state, **{one.case: one for one in fresh}})
    if not manifest.device:
        return state
    if not state.device:
        environment = {**manifest.environment, "board": manifest.board}
        return replace(state, device=manifest.device, environment=environment)
    boards = dict.fromkeys((*state.environment["board"].split("+"), *manifest.board.split("+")))
    return replace(state, environment={**state.environment, "board": "+".join(boards)})


def join_reports(
    known: Mapping[str, tuple[SerialisedReport, ...]], manifest: Manifest, cases: Sequence[str]
) -> dict[str, tuple[SerialisedReport, ...]]:
    """Case -> the reports to show: those of its first run, unless those of a later one failed."""
    joined = dict(known)
    reports: dict[str, list[SerialisedReport]] = {}
    for one in manifest.reports:
        reports.setdefault(one.case, []).append(one.report)
    for case in cases:
        fresh = tuple(reports.get(case, ()))
        if fresh and (case not in known or any(report["outcome"] == "failed" for report in fresh)):
            joined[case] = fresh
    return joined
