"""What every process adds to the state, whether it times or identifies: its run, its reports and its warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_nsight.gate.state import GateState, SerialisedReport
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.manifest_events import CaseWarning


def add_run(state: GateState, manifest: Manifest) -> GateState:
    """The state with what holds for a whole run, and with the boards of all its processes."""
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
    """Case -> the reports to show: those of its first run, unless those of a later one failed.

    Args:
        known: what is shown so far.
        manifest: the record of a process.
        cases: those of its cases whose result counts.
    """
    joined = dict(known)
    reports: dict[str, list[SerialisedReport]] = {}
    for one in manifest.reports:
        reports.setdefault(one.case, []).append(one.report)
    for case in cases:
        fresh = tuple(reports.get(case, ()))
        if fresh and (case not in known or any(report["outcome"] == "failed" for report in fresh)):
            joined[case] = fresh
    return joined


def join_warnings(
    known: Mapping[str, tuple[CaseWarning, ...]], manifest: Manifest
) -> dict[str, tuple[CaseWarning, ...]]:
    """Case -> its warnings, each once: every process of a case warns anew.

    Args:
        known: what was warned of so far.
        manifest: the record of a process.
    """
    joined = dict(known)
    for one in manifest.warnings:
        joined[one.case] = tuple(dict.fromkeys((*joined.get(one.case, ()), one)))
    return joined
