"""The identity pass: workers without a profiler, which say what each case launches before any is timed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import Protocol

from pytest_nsight.collectors.lookup import find_identifier_variables
from pytest_nsight.controller.workers.prewarmed import PrewarmedWorker
from pytest_nsight.controller.workers.progress import Progress
from pytest_nsight.controller.workers.time_limits import read_overdue
from pytest_nsight.controller.workers.worker_failure import describe_crash, describe_failed_start, describe_refusal
from pytest_nsight.controller.workers.worker_starter import LiveSession, WorkerStarter
from pytest_nsight.gate.loop import Source
from pytest_nsight.model.errors import CollectorError, RecordingError
from pytest_nsight.processes.child_process import ChildProcess, shorten, start
from pytest_nsight.protocol.job import INTERRUPTED_FILE, WORKER_LOG, Assignment
from pytest_nsight.protocol.manifest import FILE_NAME, Manifest, read_manifest
from pytest_nsight.protocol.worker_start import fix_addresses, fix_allocator
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd

_PREFIX = "identity"
FOLDERS = f"{_PREFIX}-*"
"""Folders of identity passes in a session's: one or more for each tree."""

_MOST_PROCESSES = 8
_CPUS_PER_PROCESS = 2
_CASES_PER_PROCESS = 8
"""Starting a process takes about as long as identifying this many cases."""
_PARTS_OF_SHARE = 3

_MOST_IN_VAIN = 3
"""Most retries in a row that identify nothing: on a broken device none succeeds, and cases can still be timed."""


class IdentityPass:
    """Identifies the launches of cases in fresh processes."""

    def __init__(
        self,
        session: LiveSession,
        watch: Callable[[Progress], None],
        *,
        get_ready: Callable[[Sequence[Assignment]], None] = lambda _: None,
        started: int = 0,
    ) -> None:
        """Prepares a source.

        Args:
            session: what all workers have in common.
            watch: called whenever a worker has moved on.
            get_ready: called all the while with the assignments that are timed next; starts at most one of their
                processes at a time.
            started: its workers that have been started before in the session's folder.
        """
        self._starter = WorkerStarter(session, watch, launch=self._launch, prefix=_PREFIX, started=started)
        self._get_ready = get_ready
        self._timed_next: Sequence[Assignment] = ()
        self._found: dict[str, tuple[MeasuredProcess, ...]] = {}

    @property
    def started(self) -> int:
        """Workers that have been started in the session's folder."""
        return self._starter.started

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> tuple[MeasuredProcess, ...]:
        """Runs the cases once, shared out to several processes: nothing is timed, so they may disturb each other.

        If a process fails, its record says so and no error is raised: its cases can be timed.

        Args:
            assignment: the cases of one tree.
            upcoming: the next calls'. The passes of two trees run beside one another, and the processes of the
                first timed runs get ready beside them.
        """
        if assignment.tree not in self._found:
            self._timed_next = [one for one in upcoming if not one.identifies]
            passes = [assignment, *(one for one in upcoming if one.identifies)]
            cpus = len(os.sched_getaffinity(0))
            shares = [replace(one, cases=share) for one in passes for share in share_out(one.cases, cpus)]
            processes = self._identify(shares)
            for one in passes:
                own = tuple(found for found in processes if found.manifest.tree == one.tree)
                if not _is_interrupted((*processes, *chain.from_iterable(self._found.values()))):
                    own = identify_left(one, own, self._identify, shares=len(shares))
                self._found[one.tree] = own
        return self._found.pop(assignment.tree)

    def _identify(self, assignments: Sequence[Assignment]) -> tuple[MeasuredProcess, ...]:
        """Runs processes beside one another; `cases` of one that failed are those that it has not identified."""
        running: dict[PrewarmedWorker, int] = {}
        try:
            with contextlib.ExitStack() as processes:
                for assignment in assignments:
                    folder, run = self._starter.next_run()
                    job = self._starter.job(run, assignment.tree, canaries=False)
                    job = replace(job, run=f"{job.session}/identity pass", identifies=True)
                    worker = self._starter.get_ready(folder, job)
                    running[worker] = len(assignment.cases)
                    processes.enter_context(worker.process)
                    worker.release(assignment)
                codes = self._starter.follow_together(running, lambda: self._get_ready(self._timed_next))
            ended = zip(running, assignments, codes, strict=True)
            return tuple(_read(worker.folder, assignment, code) for worker, assignment, code in ended)
        except (CollectorError, RecordingError) as error:
            return tuple(_fail(assignment.tree, assignment.cases, str(error)) for assignment in assignments)
        finally:
            for worker in running:
                worker.pipe.close()
                shorten(worker.folder / WORKER_LOG)

    def close(self) -> None:
        """Does nothing: what gets ready beside it is for others to end."""

    @cached_property
    def _variables(self) -> Mapping[str, str]:
        """What works here, tried once for both trees."""
        return find_identifier_variables()

    def _launch(self, worker: Sequence[str], folder: Path, where: Path, environ: Mapping[str, str]) -> ChildProcess:
        """Starts a worker without a profiler."""
        variables = {**fix_allocator(environ), **self._variables}
        return start(fix_addresses(worker), folder / WORKER_LOG, where, variables)


class TimedSource(Source, Protocol):
    """A source of timed runs, whose processes can get ready before they are wanted."""

    def get_ready(self, upcoming: Sequence[Assignment]) -> None:
        """Starts a process for one of these assignments that has none, if that can be done beside others."""


class IdentifyingSource:
    """A source of runs that begins with an identity pass."""

    def __init__(self, identity_pass: Source, timed: Source) -> None:
        self._identity_pass = identity_pass
        self._timed = timed

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> Sequence[MeasuredProcess]:
        """Identifies or times, as the assignment says.

        Raises:
            CollectorError: nothing of a timed run can be used.
        """
        source = self._identity_pass if assignment.identifies else self._timed
        return source.execute(assignment, upcoming)

    def close(self) -> None:
        """Ends the processes that were prepared for a further call, because none will come."""
        self._identity_pass.close()
        self._timed.close()


def read_identity_passes(session: Path) -> tuple[MeasuredProcess, ...]:
    """What the identity passes of a recorded session found; none where it had none.

    Raises:
        RecordingError: the record of one is damaged.
    """
    folders = [folder for folder in sorted(session.glob(FOLDERS)) if (folder / FILE_NAME).exists()]
    manifests = [read_manifest(folder / FILE_NAME) for folder in folders]
    identified = {(manifest.tree, case) for manifest in manifests for case in manifest.identities}
    return tuple(
        _read_recorded(manifest, folder, identified) for manifest, folder in zip(manifests, folders, strict=True)
    )


def _read_recorded(manifest: Manifest, folder: Path, identified: Collection[tuple[str, str]]) -> MeasuredProcess:
    if (folder / INTERRUPTED_FILE).exists():
        return MeasuredProcess(manifest, end=ProcessEnd.INTERRUPTED)
    if manifest.exit_code is not None or manifest.identity_fault:
        return MeasuredProcess(manifest)
    # A later process may have identified the cases of a dead one.
    assigned = manifest.started if manifest.assigned is None else manifest.assigned
    left = tuple(case for case in assigned if (manifest.tree, case) not in identified)
    failure = f"the process of {folder.name} died" if left or not assigned else ""
    return MeasuredProcess(manifest, end=ProcessEnd.FAILED, failure=failure, cases=left)


def share_out(cases: Sequence[str], cpus: int) -> list[tuple[str, ...]]:
    """The cases in about equal shares, in which neighbouring cases of one test function stay together.

    Such cases need the same imports, compiled kernels and code to read. But all of them may take long, so at most
    a third of a share stays together, and the next ones go to the share with the fewest cases.

    Args:
        cases: at least one.
        cpus: of this machine.
    """
    shares = max(1, min(_MOST_PROCESSES, cpus // _CPUS_PER_PROCESS, len(cases) // _CASES_PER_PROCESS))
    most = max(1, len(cases) // shares // _PARTS_OF_SHARE)
    dealt: list[list[str]] = [[] for _ in range(shares)]
    for own in [list(group) for _, group in groupby(cases, key=lambda case: case.partition("[")[0])]:
        for at in range(0, len(own), most):
            min(dealt, key=len).extend(own[at : at + most])
    return [tuple(share) for share in dealt]


def identify_left(
    assignment: Assignment,
    processes: Sequence[MeasuredProcess],
    identify: Callable[[Sequence[Assignment]], tuple[MeasuredProcess, ...]],
    *,
    shares: int,
) -> tuple[MeasuredProcess, ...]:
    """The processes of a tree, and the retries of cases that failed processes left unidentified.

    A case that ran when its process died comes after all others and alone, so that it costs no other case its
    identity. One that took too long, or that was the first of its process, is not tried again.

    Args:
        assignment: the cases of the tree.
        processes: that were to identify them.
        identify: runs processes; `cases` of one that failed are those that it has not identified.
        shares: how many processes ran side by side. A device may allow only one, or have memory for only one.
    """
    found: list[MeasuredProcess] = []
    left: set[str] = set()
    suspects: set[str] = set()
    fresh, in_vain = tuple(processes), 0
    may_start = shares > 1
    while True:
        for process in fresh:
            kept, again, suspect = _sort_out(process, may_start=may_start)
            found.append(kept)
            left |= again
            suspects |= suspect
        if _is_interrupted(found) or not (left or suspects):
            return tuple(found)
        if in_vain == _MOST_IN_VAIN:
            return (*found, replace(fresh[-1], cases=_in_order(assignment, left | suspects)))
        chosen = left or set(_in_order(assignment, suspects)[:1])
        left, suspects, may_start = set(), suspects - chosen, False
        fresh = identify([replace(assignment, cases=_in_order(assignment, chosen))])
        in_vain = 0 if any(process.manifest.identities for process in fresh) else in_vain + 1


def _sort_out(process: MeasuredProcess, *, may_start: bool) -> tuple[MeasuredProcess, set[str], set[str]]:
    """The record to keep, the cases to retry, and the case to retry alone.

    Args:
        process: of the pass.
        may_start: whether a process that failed before its first case may succeed if it runs alone.
    """
    left, running = set(process.cases or ()), _find_running(process)
    if process.end is not ProcessEnd.FAILED or not (running or may_start):
        return process, set(), set()
    if process.overdue or process.manifest.started == (running,):
        return replace(process, cases=(running,)), left - {running}, set()
    return replace(process, failure=""), left - {running}, {running} & left


def _in_order(assignment: Assignment, cases: Collection[str]) -> tuple[str, ...]:
    return tuple(case for case in assignment.cases if case in cases)


def _is_interrupted(processes: Iterable[MeasuredProcess]) -> bool:
    """Whether the user has ended any of them."""
    return any(process.end is ProcessEnd.INTERRUPTED for process in processes)


def _find_running(process: MeasuredProcess) -> str:
    """The case that ran at the end of a process, "" if none did."""
    return next((case for case in process.manifest.started if case not in process.manifest.ended), "")


def _read(folder: Path, assignment: Assignment, code: int | None) -> MeasuredProcess:
    journal, log = folder / FILE_NAME, folder / WORKER_LOG
    if not journal.exists():
        failure = describe_failed_start(code, log) if code is not None else "it was interrupted"
        return _fail(assignment.tree, assignment.cases, failure)
    manifest = read_manifest(journal)
    if code is None:
        return MeasuredProcess(manifest, end=ProcessEnd.INTERRUPTED)
    if manifest.identity_fault:
        return MeasuredProcess(manifest)
    if manifest.exit_code is not None:
        return MeasuredProcess(manifest, failure=describe_refusal(manifest, log))
    left = tuple(case for case in assignment.cases if case not in manifest.identities)
    overdue = read_overdue(folder)
    return MeasuredProcess(
        manifest,
        end=ProcessEnd.FAILED,
        failure=describe_crash(manifest, code, log),
        overdue=overdue.case if overdue else "",
        cases=left,
    )


def _fail(tree: str, cases: Sequence[str], failure: str) -> MeasuredProcess:
    """A process that left no record."""
    manifest = Manifest("", "", "", "", 0, "", "", {}, (), (), (), (), (), None, tree=tree)
    return MeasuredProcess(manifest, end=ProcessEnd.FAILED, failure=failure, cases=tuple(cases))
