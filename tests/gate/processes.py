"""Processes as a source hands them out, made up: what they started, ended, lost and summarised."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pytest_nsight.model.values import Subject
from pytest_nsight.protocol.job import THIS_TREE, Assignment
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.phase_reports import PhaseReport
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd
from tests.judge.runs import make_runs

COMMIT = "0123456789"


def make_process(
    cases: Sequence[str],
    *,
    tree: str = THIS_TREE,
    run: str = "run",
    crashed: Sequence[str] = (),
    end: ProcessEnd = ProcessEnd.COMPLETE,
    problems: Mapping[str, str] | None = None,
    unmeasured: Collection[str] = (),
    has_trace: bool = True,
    failure: str = "",
    failing: Collection[str] = (),
    skipped: Collection[str] = (),
) -> MeasuredProcess:
    """A process in which `cases` ended and `crashed` started."""
    problems = problems or {}
    outcomes = {**dict.fromkeys(failing, "failed"), **dict.fromkeys(skipped, "skipped")}
    reports = tuple(PhaseReport(case, {"outcome": outcomes.get(case, "passed"), "when": "call"}) for case in cases)
    manifest = Manifest(
        run=run,
        session="session",
        recorded="",
        commit=COMMIT,
        pid=1,
        device="",
        board="",
        environment={},
        started=(*cases, *crashed),
        ended=tuple(cases),
        rounds=(),
        reports=reports,
        faults=(),
        exit_code=0 if end is ProcessEnd.COMPLETE else None,
        tree=tree,
    )
    seen = [case for case in cases if has_trace and case not in problems and case not in (*unmeasured, *skipped)]
    return MeasuredProcess(
        manifest,
        tuple(make_runs([1000.0], "session", subject=Subject(case))[0] for case in seen),
        problems=problems,
        end=end,
        failure=failure,
        has_trace=has_trace,
    )


class Machine:
    """A source that runs cases; some crash the process, some damage its record, some the other tree lacks.

    Attributes:
        assignments: what was measured, in order.
        announced: what was announced with each.
    """

    def __init__(
        self,
        *,
        missing: Sequence[str] = (),
        crashing: Sequence[str] = (),
        poisoning: Sequence[str] = (),
        most: int = 1000,
    ) -> None:
        self.assignments: list[Assignment] = []
        self.announced: list[tuple[Assignment, ...]] = []
        self._missing = missing
        self._crashing = crashing
        self._poisoning = poisoning
        self._most = most

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> tuple[MeasuredProcess, ...]:
        if len(self.assignments) == self._most:
            return ()
        self.assignments.append(assignment)
        self.announced.append(tuple(upcoming))
        tree = assignment.tree
        cases = [case for case in assignment.cases if tree == THIS_TREE or case not in self._missing]
        crash = next((number for number, case in enumerate(cases) if case in self._crashing), len(cases))
        has_crashed = crash < len(cases)
        ended = cases[:crash]
        poison = next((number for number, case in enumerate(ended) if case in self._poisoning), crash)
        process = make_process(
            ended,
            tree=tree,
            crashed=cases[crash : crash + 1],
            end=ProcessEnd.FAILED if has_crashed else ProcessEnd.COMPLETE,
            problems=dict.fromkeys(ended[poison:], "its record is lost"),
            failure="died with SIGSEGV" if has_crashed else "",
        )
        return (process,)

    def close(self) -> None:
        pass
