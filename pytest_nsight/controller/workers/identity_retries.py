"""Which cases of an identity pass are identified again, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from pytest_nsight.controller.workers.followed_worker import FollowedWorker
from pytest_nsight.controller.workers.identity_shares import Cases
from pytest_nsight.model.identity import SHORT_OF_MEMORY, Identity, differ_in_addresses
from pytest_nsight.protocol.job import Assignment
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd

_MOST_IN_VAIN = 3
"""Most retries of a tree in a row that ran alone and identified nothing: on a broken device none succeeds, and
cases can still be timed."""


def count_retries(workers: Sequence[FollowedWorker], trees: Sequence[str]) -> Counter[str]:
    """Tree -> how many processes will identify some of its cases again, as far as is known.

    Args:
        workers: that run beside one another.
        trees: that of each worker.
    """
    failed = Counter(tree for worker, tree in zip(workers, trees, strict=True) if _has_failed(worker))
    # The case that each of them failed at, and all that they had not begun.
    wanted = failed + Counter(failed.keys())
    is_short = any(one.tail.is_short_of_memory for one in workers)
    return wanted + Counter(set(trees) if is_short else ())


def count_repeats(workers: Sequence[FollowedWorker], trees: Sequence[str]) -> Counter[str]:
    """Tree -> how many processes get ready for cases of two trees that may differ in addresses alone.

    That such cases exist is known only when all processes have ended; to start new ones then took 7 of 60 s. Once
    half of them have ended, there are CPUs for one of each tree.

    Args:
        workers: that run beside one another.
        trees: that of each worker.
    """
    ended = sum(not one.is_running for one in workers)
    return Counter(set(trees) if len(set(trees)) > 1 and 2 * ended >= len(workers) else ())


def _has_failed(worker: FollowedWorker) -> bool:
    """Whether a case has left it unusable, or it has died."""
    if worker.is_running:
        return worker.tail.is_unusable
    # Its last events may be unread.
    worker.advance()
    return worker.tail.is_unusable or worker.tail.exit_code is None


def identify_left(
    passes: Sequence[Assignment],
    processes: Sequence[MeasuredProcess],
    identify: Callable[[Sequence[Assignment]], tuple[MeasuredProcess, ...]],
    *,
    at_once: int,
) -> dict[str, tuple[MeasuredProcess, ...]]:
    """Tree -> its processes, and the retries of cases that failed processes left unidentified.

    First come the cases that such processes had not begun, in one process, and each case that left its process
    unusable, in one of its own: it may have run out of memory beside many others. A few of these processes run side
    by side. What fails there is tried again alone. A case that ran when its process died comes last and alone, so
    that it costs no other case its identity. One that took too long is not tried again. Nor is one that failed
    alone, or that was the first of a process which died in the pass.

    Args:
        passes: the cases of each tree.
        processes: that were to identify them, beside one another. A device may allow only one, or have memory for
            only one.
        identify: runs processes, beside one another; `cases` of one that failed are those that it has not
            identified.
        at_once: retries of each tree that run beside one another, at most.
    """
    trees = [_Retries(one, processes, at_once) for one in passes]
    fresh: tuple[MeasuredProcess, ...] = ()
    while not is_interrupted(fresh):
        beside = [one for tree in trees for one in tree.list_beside()]
        alone = [one for tree in trees for one in tree.list_alone()][:1]
        batch = beside if len(beside) > 1 else alone
        if not batch:
            break
        fresh = identify(batch)
        for tree in trees:
            tree.add(batch, fresh)
    return {tree.name: tuple(tree.found) for tree in trees}


class _Retries:
    """What failed processes of a tree have left unidentified.

    Attributes:
        name: of the tree.
        found: the records to keep.
    """

    def __init__(self, assignment: Assignment, processes: Sequence[MeasuredProcess], at_once: int) -> None:
        self.name = assignment.tree
        self.found: list[MeasuredProcess] = []
        self._assignment = assignment
        self._left: set[str] = set()
        self._suspects: set[str] = set()
        self._in_vain = 0
        own = [process for process in processes if process.manifest.tree == self.name]
        is_shared = len(processes) > 1
        for process in own:
            lost = process.manifest.process_failure
            self._sort_out(process, may_start=is_shared, may_try_alone=is_shared and lost is not None)
        reported = {process.manifest.process_failure.case for process in own if process.manifest.process_failure}
        parts = [self._left, *({case} for case in self._in_order(self._suspects & reported))]
        self._beside = [self._assign(part) for part in parts if part]
        self._at_once = min(at_once, len(own))

    def list_beside(self) -> list[Assignment]:
        """What may run next beside other retries."""
        return self._beside[: self._at_once]

    def list_alone(self) -> list[Assignment]:
        """What runs next if nothing runs beside it; at most one."""
        chosen = self._left or self._in_order(self._suspects)[:1]
        return [self._assign(chosen)] if chosen else []

    def add(self, batch: Sequence[Assignment], fresh: Sequence[MeasuredProcess]) -> None:
        """Takes in what has run beside one another, of any tree.

        Args:
            batch: what was assigned.
            fresh: its processes, in the same order.
        """
        own = [(one, process) for one, process in zip(batch, fresh, strict=True) if one.tree == self.name]
        if not own:
            return
        was_beside = len(batch) > 1
        for one, process in own:
            self._left -= {*one.cases}
            self._suspects -= {*one.cases}
            # Others may have taken it down.
            self._sort_out(process, may_start=was_beside, may_try_alone=was_beside)
        is_in_vain = not any(process.manifest.identities for _, process in own)
        # What fails beside others says little of the device, but shows that they are too many.
        self._beside = [] if is_in_vain or not was_beside else self._beside[len(own) :]
        self._in_vain = self._in_vain + (not was_beside) if is_in_vain else 0
        if self._in_vain == _MOST_IN_VAIN and (self._left or self._suspects):
            self.found.append(replace(fresh[-1], cases=self._in_order(self._left | self._suspects)))
            self._left, self._suspects = set(), set()

    def _sort_out(self, process: MeasuredProcess, *, may_start: bool, may_try_alone: bool) -> None:
        """Keeps its record, the cases to retry, and the case to retry alone.

        Args:
            process: has ended.
            may_start: whether one that failed before its first case may succeed if it runs alone.
            may_try_alone: whether its first case may have failed because of others.
        """
        left, running = set(process.cases or ()), _find_running(process)
        if process.end is not ProcessEnd.FAILED or not (running or may_start):
            self.found.append(process)
            return
        self._left |= left - {running}
        if process.overdue or (process.manifest.started == (running,) and not may_try_alone):
            self.found.append(replace(process, cases=(running,)))
            return
        self._suspects |= {running} & left
        self.found.append(replace(process, failure=""))

    def _assign(self, cases: Collection[str]) -> Assignment:
        return replace(self._assignment, cases=self._in_order(cases))

    def _in_order(self, cases: Collection[str]) -> Cases:
        return tuple(case for case in self._assignment.cases if case in cases)


def list_repeats(trees: Sequence[Sequence[MeasuredProcess]], most: int) -> list[Cases]:
    """What processes run again, one for each tree: up to the last case whose memory may lie elsewhere by chance.

    Where memory was short, a process says so. And two trees may identify a case as the same but for addresses. What
    a case launches may depend on the cases before it in its process, so these are repeated, too: a change that only
    shows after them shows again. A case that ran after others in one tree than in the other is not repeated.

    Args:
        trees: the processes of one tree, or of two.
        most: cases that may differ in addresses alone by chance.
    """
    found = [_join_identities(processes) for processes in trees]
    here, others = found[0], found[1:]
    moved = {case for case in here for one in others if case in one and differ_in_addresses(here[case], one[case])}
    short = {case for one in found for case, identity in one.items() if identity.why_none == SHORT_OF_MEMORY}
    before = [_list_cases_before(processes) for processes in trees]
    chosen = short | (moved if len(moved) <= most else set())
    again = {case for case in chosen if len({one.get(case) for one in before}) == 1}
    last = {case: place for place, process in enumerate(trees[0]) for case in process.manifest.identities}
    repeats = []
    for place, process in enumerate(trees[0]):
        ran = tuple(dict.fromkeys(process.manifest.started))
        ends = [at for at, case in enumerate(ran, 1) if case in again and last.get(case) == place]
        repeats += [ran[: ends[-1]]] if ends else []
    return repeats


def _list_cases_before(processes: Iterable[MeasuredProcess]) -> dict[str, Cases]:
    """Case -> those that had started before it in the process whose identity of it counts."""
    found = {}
    for process in processes:
        ran = tuple(dict.fromkeys(process.manifest.started))
        found.update({case: ran[: ran.index(case)] for case in process.manifest.identities if case in ran})
    return found


def _join_identities(processes: Iterable[MeasuredProcess]) -> dict[str, Identity]:
    return {case: found for process in processes for case, found in process.manifest.identities.items()}


def is_interrupted(processes: Iterable[MeasuredProcess]) -> bool:
    """Whether the user has ended any of them."""
    return any(process.end is ProcessEnd.INTERRUPTED for process in processes)


def _find_running(process: MeasuredProcess) -> str:
    """The case that ran at the end of a process, or left it unusable, "" if none did."""
    if (lost := process.manifest.process_failure) is not None:
        return lost.case
    return next((case for case in process.manifest.started if case not in process.manifest.ended), "")
