"""The states of several shards as one, as if a single session had measured all cases. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pytest_nsight.baselines.failed_saves import FailedSave
from pytest_nsight.gate.other_tree import OtherTree
from pytest_nsight.gate.state import GateState
from pytest_nsight.gate.stored_runs import StoredRuns
from pytest_nsight.model.values import Case, RunSummary, Subject

_Value = TypeVar("_Value")


def join_states(states: Sequence[GateState]) -> GateState:
    """One state with all cases, in the order of their files.

    Canaries are in several shards; their runs of each session stay apart, as those of several boards do.

    Args:
        states: of shards that have no case in common, at least one.
    """
    cases = sorted((case for state in states for case in state.plan.cases), key=_place)
    measured = [state for state in states if state.environment]
    first = measured[0] if measured else states[0]
    boards = dict.fromkeys(board for state in measured for board in state.environment["board"].split("+"))
    environment = {**first.environment, "board": "+".join(boards)} if measured else {}
    joined = replace(
        first,
        plan=replace(first.plan, cases=tuple(cases)),
        summaries=tuple(run for state in states for run in state.summaries),
        reports=_united(state.reports for state in states),
        problems=_united(state.problems for state in states),
        canaries=tuple(run for state in states for run in state.canaries),
        pairs=_united(state.pairs for state in states),
        other=_join_other_trees([state.other for state in states]),
        notes=(),
        environment=environment,
        bytes_per_s=next((state.bytes_per_s for state in states if state.bytes_per_s is not None), None),
        seeds=_united(state.seeds for state in states),
        timelines=_united(state.timelines for state in states),
        metrics=_united(state.metrics for state in states),
    )
    return joined.with_notes(*(note for state in states for note in state.notes))


def join_stored(of_shards: Iterable[StoredRuns]) -> StoredRuns:
    """What the baselines hold for all shards, each run once: every shard has those of the canaries."""
    runs: dict[Subject, dict[str, RunSummary]] = {}
    failed: dict[str, FailedSave] = {}
    for of_shard in of_shards:
        failed |= of_shard.failed_saves
        for run in of_shard.all:
            runs.setdefault(run.subject, {}).setdefault(run.run, run)
    return StoredRuns({subject: tuple(by_id.values()) for subject, by_id in runs.items()}, failed)


def _join_other_trees(trees: Sequence[OtherTree]) -> OtherTree:
    runs: dict[Subject, tuple[RunSummary, ...]] = {}
    for tree in trees:
        for subject, own in tree.runs.items():
            runs[subject] = (*runs.get(subject, ()), *own)
    commit = next((tree.commit for tree in trees if tree.commit), "")
    return OtherTree(commit, _united(tree.absent for tree in trees), runs)


def _place(case: Case) -> tuple[str, int, str]:
    """Where the case is in its file, as far as that is known."""
    return case.id.partition("::")[0], case.line or 0, case.id


def _united(mappings: Iterable[Mapping[str, _Value]]) -> dict[str, _Value]:
    return {name: value for mapping in mappings for name, value in mapping.items()}
