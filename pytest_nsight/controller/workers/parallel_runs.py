"""Runs of several worker processes at once: each on a GPU of its own, or the ranks of parallel tests together."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_nsight.controller.session_folders import make_run_folder
from pytest_nsight.controller.workers.followed_worker import mark_interrupted
from pytest_nsight.controller.workers.gpu_assignment import share_cases
from pytest_nsight.controller.workers.manifest_tail import LateImport, Progress, Tail
from pytest_nsight.controller.workers.parallel_records import TraceReader, read_parallel_run
from pytest_nsight.controller.workers.time_limits import CaseClock, Overdue, end_overdue
from pytest_nsight.controller.workers.unread_records import UnreadRecordError
from pytest_nsight.controller.workers.worker_starter import (
    POLL_S,
    LiveSession,
    WorkerStarter,
    write_job,
)
from pytest_nsight.model.errors import CollectorError, unwritable
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.values import Case
from pytest_nsight.processes.child_process import ChildProcess
from pytest_nsight.processes.log_files import shorten
from pytest_nsight.protocol.job import WORKER_LOG, Assignment
from pytest_nsight.protocol.manifest import FILE_NAME
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.protocol.parent_pipe import PipeToWorker
from pytest_nsight.protocol.ranks import make_barriers, rank_environs
from pytest_nsight.protocol.worker_plan import WorkerGroup, WorkerPlan, WorkerSpec
from pytest_nsight.trace.process_record import MeasuredProcess, summarise_records


class ParallelSource:
    """Has each run's cases measured by several workers under one profiler."""

    def __init__(
        self,
        session: LiveSession,
        watch: Callable[[Progress], None],
        cases: Sequence[Case],
        worker_gpus: Sequence[str],
        gpus: Sequence[str],
    ) -> None:
        """Shares the cases out.

        Args:
            session: what all workers have in common.
            watch: called whenever a worker has moved on.
            cases: all cases of the session, in the order of collection.
            worker_gpus: CUDA_VISIBLE_DEVICES of each of several workers; empty for one worker that sees all GPUs.
            gpus: UUIDs of the visible GPUs; ranks get the first of them.
        """
        self._starter = WorkerStarter(session)
        self._watch = watch
        self._collector = session.collector
        self._keep = session.keep
        self._canaries = session.canaries
        self._worker_gpus = tuple(worker_gpus)
        self._gpus = tuple(gpus)
        self._ranks = {case.id: case.ranks for case in cases}
        alone = [case for case in cases if case.ranks == 1 or self._lacks(case.ranks)]
        self._worker_of = share_cases(alone, len(worker_gpus))

    def execute(
        self,
        assignment: Assignment,
        upcoming: Sequence[Assignment] = (),  # noqa: ARG002 - nothing gets ready beside several processes
    ) -> tuple[MeasuredProcess, ...]:
        """Measures the cases, each in one of several fresh processes, or on all of its ranks.

        All are measured once more if a record cannot be read. Nothing gets ready beside them, as they use many CPUs
        and boards.

        Raises:
            CollectorError: nothing of the run can be used, and no other run would fare better.
        """
        try:
            return self._measure(assignment)
        except UnreadRecordError as error:
            return error.note(self._measure(assignment))

    def _measure(self, assignment: Assignment) -> tuple[MeasuredProcess, ...]:
        folder, run = self._starter.next_run()
        plan = self._plan(assignment.cases)
        make_run_folder(folder)
        pipes: list[tuple[PipeToWorker, Assignment]] = []
        try:
            for group in plan.groups:
                # One by one, so that the pipes made so far are cut below even if the next one cannot be made.
                for pipe in self._prepare_group(folder, run, group, assignment.tree):
                    pipes.append((pipe, replace(assignment, cases=group.cases)))  # noqa: PERF401 - extend() may lose all
            try:
                plan.write(folder)
            except OSError as error:
                raise unwritable(folder, error) from None
            for pipe, own in pipes:
                pipe.send(own)
            with self._starter.start("pytest_nsight.supervisor", folder, assignment.tree) as process:
                code = self._follow_all(process, folder, plan, Progress(run, "", 0, len(assignment.cases)))
            try:
                records = read_parallel_run(folder, plan, code, self._reader(folder))
            except UnreadRecordError as error:
                error.leave_out()
                if process.was_overdue:
                    raise CollectorError(str(error)) from None
                raise
            # The next processes measure no canaries: their innocent cases must not fail the same way.
            self._canaries = self._canaries and not any(record.failed_in_canary for record in records)
            return summarise_records(records)
        finally:
            for pipe, _ in pipes:
                pipe.close()
            members = (member for group in plan.groups for member in group.members)
            # The raw record must never stay: it holds the environment's secrets. An error skips no other folder.
            with contextlib.ExitStack() as tidying:
                for place in (folder, *(folder / member.folder for member in members)):
                    tidying.callback(shorten, place / WORKER_LOG)
                    tidying.callback(self._collector.tidy, place, keep=self._keep)

    def get_ready(self, upcoming: Sequence[Assignment], late_imports: Collection[LateImport]) -> None:
        """Does nothing: no process is prepared beside several."""

    def close(self) -> None:
        """Does nothing: no process is prepared."""

    def _lacks(self, ranks: int) -> bool:
        """Whether there are GPUs, but too few for so many ranks; without any, ranks share the CPU."""
        return 0 < len(self._gpus) < ranks

    def _plan(self, cases: Sequence[str]) -> WorkerPlan:
        """One stage for the workers on a GPU of their own, then one for each number of ranks."""
        cases_of: dict[int, list[str]] = {}
        ranked: dict[int, list[str]] = {}
        for case in cases:
            if case in self._worker_of:
                cases_of.setdefault(self._worker_of[case], []).append(case)
            else:
                ranked.setdefault(self._ranks[case], []).append(case)
        side_by_side = tuple(
            WorkerGroup(tuple(cases_of[number]), (self._worker_spec(number),)) for number in sorted(cases_of)
        )
        together = tuple(
            (WorkerGroup(tuple(ranked[ranks]), self._rank_members(ranks)),) for ranks in sorted(ranked)
        )
        return WorkerPlan((side_by_side, *together) if side_by_side else together)

    def _worker_spec(self, number: int) -> WorkerSpec:
        environ = {"CUDA_VISIBLE_DEVICES": self._worker_gpus[number]} if self._worker_gpus else {}
        return WorkerSpec(f"worker-{number + 1}", environ)

    def _rank_members(self, ranks: int) -> tuple[WorkerSpec, ...]:
        """Ranks as torchrun would start them: all see the same GPUs in the same order."""
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(self._gpus[:ranks])} if self._gpus else {}
        # With one hash seed, code that depends on the order of a set does the same on every rank.
        common = {"PYTHONHASHSEED": "0", **visible}
        return tuple(
            WorkerSpec(f"ranks-{ranks}-rank-{rank}", {**environ, **common})
            for rank, environ in enumerate(rank_environs(ranks))
        )

    def _prepare_group(self, folder: Path, run: str, group: WorkerGroup, tree: str) -> Iterator[PipeToWorker]:
        """Makes the folder and the job of each member, and gives its pipe."""
        ranks = len(group.members)
        suffix = (
            f".r{ranks}" if ranks > 1 else f".{self._worker_of[group.cases[0]] + 1}" if self._worker_gpus else ""
        )
        unable = {
            case: describe_missing_gpus(self._ranks[case], len(self._gpus))
            for case in group.cases
            if ranks == 1 and self._ranks[case] > 1
        }
        try:
            if ranks > 1:
                make_barriers(folder, ranks)
            for rank, member in enumerate(group.members):
                own = folder / member.folder
                own.mkdir()
                (own / FILE_NAME).touch()
                job = self._starter.job(run + suffix, tree, canaries=self._canaries and ranks == 1)
                yield write_job(own, replace(job, rank=rank, ranks=ranks, unable=unable))
        except OSError as error:
            raise unwritable(folder, error) from None

    def _follow_all(self, process: ChildProcess, folder: Path, plan: WorkerPlan, progress: Progress) -> int | None:
        """Waits for the end of all workers; None if the user's interrupt ended them."""
        # Ranks run in step, so the progress of the first one stands for all.
        tails = [Tail(folder / group.members[0].folder / FILE_NAME) for group in plan.groups]
        states = [replace(progress, total=len(group.cases)) for group in plan.groups]
        clocks = [CaseClock(self._starter.session.limits) for _ in plan.groups]
        try:
            while process.poll() is None:
                states = [tail.advance(state) for tail, state in zip(tails, states, strict=True)]
                running = [state.case for state in states if state.case]
                self._watch(
                    replace(
                        progress,
                        case=running[0] if running else "",
                        done=sum(state.done for state in states),
                        beside=tuple(running[1:]),
                    )
                )
                for group, tail, state, clock in zip(plan.groups, tails, states, clocks, strict=True):
                    has_begun, has_ended = tail.pid is not None, tail.has_ended()
                    if overdue := clock.find_overdue(state, has_begun=has_begun, has_ended=has_ended):
                        self._end_group(folder, group, overdue)
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            process.interrupt()
            mark_interrupted(folder)
            return None
        return process.poll()

    def _end_group(self, folder: Path, group: WorkerGroup, overdue: Overdue) -> None:
        """Ends every rank, because a rank that waits in a collective for a hanging one hangs, too."""
        for worker in group.members:
            own = folder / worker.folder
            end_overdue(own, read_manifest(own / FILE_NAME).pid or None, overdue)

    def _reader(self, folder: Path) -> TraceReader:
        """Reads the one trace of all workers once, or each worker's own."""
        known: dict[Path, tuple[Trace | None, str]] = {}

        def read(member: Path) -> tuple[Trace | None, str]:
            source = folder if self._collector.is_shared else member
            if source not in known:
                try:
                    known[source] = self._collector.collect(source), ""
                except CollectorError as error:
                    known[source] = None, str(error)
            return known[source]

        return read


def describe_missing_gpus(ranks: int, gpus: int) -> str:
    """Why a case is skipped that needs a GPU for each of its ranks."""
    return f"needs {ranks} GPUs, and {gpus} {'is' if gpus == 1 else 'are'} visible"
