"""The collected data of the study: sound runs, runs with injected slowdowns, controls, live checks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.validate.collect import LOG
from benchmarks.validation_suite.cases import CASES, Case, position_of
from benchmarks.validation_suite.injection import number_of, rotate
from pytest_nsight.calibrate.forced_looks import part_confirming
from pytest_nsight.calibrate.pool import PooledRun, list_processes, read_pool
from pytest_nsight.judge.board_groups import find_board_groups
from pytest_nsight.judge.subject_runs import SubjectRuns
from pytest_nsight.model.values import Policy, RunSummary, Subject

BANDS = (0.005, 0.01, 0.02)
SHORT_NS, LONG_NS = 10_000, 50_000


@dataclass(frozen=True)
class Study:
    """Everything collected.

    Attributes:
        sound: runs of unchanged code.
        injected: runs in which cases were given more work in turn.
        controls: name -> runs under a negative control.
        live: whole checks, as collection.json records them.
        seconds: run -> wall time.
        policies: case -> policy at the default band of the collection.
        left_out: names of cases that were collected and are not looked at.
        confirming: runs of unchanged code in processes that measured few cases, as a look asks for them.
    """

    sound: tuple[PooledRun, ...]
    injected: tuple[PooledRun, ...]
    controls: Mapping[str, tuple[PooledRun, ...]]
    live: tuple[Mapping[str, Any], ...]
    seconds: Mapping[str, float]
    policies: Mapping[str, Policy]
    left_out: tuple[str, ...] = ()
    confirming: tuple[RunSummary, ...] = ()

    @cached_property
    def boards(self) -> Mapping[str, str]:
        """UUID -> a short name."""
        seen = dict.fromkeys(process.board for process in (*self.sound, *self.injected))
        return {board: chr(ord("A") + index) for index, board in enumerate(seen)}

    @cached_property
    def board_groups(self) -> Mapping[str, str]:
        """UUID -> short name of a board of its group, by the canaries of all sound runs."""
        runs: dict[Subject, list[RunSummary]] = {}
        for process in self.sound:
            for subject, summary in process.summaries.items():
                if subject.is_canary:
                    runs.setdefault(subject, []).append(summary)
        found = find_board_groups([SubjectRuns(subject, Policy(), tuple(own), ()) for subject, own in runs.items()])
        return {board: self.boards[group] for board, group in found.items()}

    @cached_property
    def subjects(self) -> tuple[Subject, ...]:
        """All subjects but the canaries, as the suite has them."""
        return tuple(subject for subject in self.sound[0].summaries if not subject.is_canary)

    def with_band(self, band: float) -> dict[str, Policy]:
        """The policies of all cases at this band."""
        return {subject.case: replace(self._policy(subject), band=band) for subject in self.subjects}

    def _policy(self, subject: Subject) -> Policy:
        return self.policies.get(subject.case, Policy())


def load_study(folders: Sequence[Path], without: Sequence[str] = ()) -> Study:
    """Reads collections.

    Args:
        folders: of collect.py.
        without: names of cases to leave out, for instance because their code changed from one folder to another.

    Raises:
        ValueError: no case has such a name.
    """
    summaries: dict[str, list[RunSummary]] = {}
    seconds: dict[str, float] = {}
    policies: dict[str, Policy] = {}
    live: list[Mapping[str, Any]] = []
    for folder in folders:
        log = json.loads((folder / LOG).read_text(encoding="utf-8"))
        live += log["live"]
        for entry in log["pools"]:
            pool = read_pool(folder / entry["file"])
            name = "injected" if entry["inject"] else f"control {entry['control']}" if entry["control"] else "sound"
            summaries.setdefault(name, []).extend(pool.summaries)
            seconds.update(pool.seconds)
            policies.update(pool.policies)
    names = {_name_of(run.subject) for runs in summaries.values() for run in runs}
    if unknown := [name for name in without if name not in names]:
        raise ValueError(f"no case is named {', '.join(unknown)}; there are {', '.join(sorted(names))}")
    # Confirming runs lack most cases, and are no sample of what a process of the suite measures.
    summaries["sound"], confirming = part_confirming(summaries.get("sound", ()))
    processes = {
        name: list_processes(run for run in runs if _name_of(run.subject) not in without)
        for name, runs in summaries.items()
    }
    return Study(
        sound=processes.get("sound", ()),
        injected=processes.get("injected", ()),
        controls={
            name.removeprefix("control "): runs for name, runs in processes.items() if name.startswith("control ")
        },
        live=tuple(live),
        seconds=seconds,
        policies=policies,
        left_out=tuple(without),
        confirming=tuple(run for run in confirming if _name_of(run.subject) not in without),
    )


def case_of(subject: Subject) -> Case | None:
    """The suite's case behind a subject; None for a subject of another suite."""
    name = _name_of(subject)
    return next((case for case in CASES if name == f"{case.kind}-{case.name}"), None)


def _name_of(subject: Subject) -> str:
    return subject.case.rpartition("[")[2].removesuffix("]")


def injectable(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, Case, int]]:
    """Subject, case and position of what can be given more work."""
    for subject in subjects:
        case = case_of(subject)
        position = position_of(case.name) if case else None
        if case is not None and position is not None:
            yield subject, case, position


def level_in(process: PooledRun, position: int) -> int:
    """The additional work in per mille that a case had in a run of rotating slowdowns."""
    return rotate(position, number_of(process.run))
