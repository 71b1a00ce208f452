"""How the cases of an identity pass are shared out to processes, and which of them are tried again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain, groupby

from pytest_nsight.model.identity import SHORT_OF_MEMORY, Identity, differ_in_addresses
from pytest_nsight.protocol.job import Assignment
from pytest_nsight.trace.process_record import MeasuredProcess, ProcessEnd

_MOST_PROCESSES = 8
_CPUS_PER_PROCESS = 2
_CASES_PER_PROCESS = 8
"""Starting a process takes about as long as identifying this many cases."""
_PARTS_OF_PROCESS = 3

Cases = tuple[str, ...]

_MOST_IN_VAIN = 3
"""Most retries in a row that identify nothing: on a broken device none succeeds, and cases can still be timed."""


def count_processes(cases: Sequence[str], cpus: int) -> int:
    """How many processes identify the cases of a tree side by side.

    Args:
        cases: of the tree.
        cpus: of this machine.
    """
    return max(1, min(_MOST_PROCESSES, cpus // _CPUS_PER_PROCESS, len(cases) // _CASES_PER_PROCESS))


def divide(cases: Sequence[str], processes: int) -> list[Cases]:
    """The cases in parts, in order; neighbouring cases of one test function stay together.

    Such cases need the same imports, compiled kernels and code to read. But all of them may take long, so a part is
    at most a third of what a process does.
    """
    most = max(1, len(cases) // processes // _PARTS_OF_PROCESS)
    groups = [tuple(group) for _, group in groupby(cases, key=lambda case: case.partition("[")[0])]
    return [own[at : at + most] for own in groups for at in range(0, len(own), most)]


def share_out(cases: Sequence[str], processes: int) -> list[Cases]:
    """The cases in about equal shares, which are the same each time.

    The shares take turns back and forth: in one direction, slow functions whose distance in parts is the number of
    shares would always share a process.
    """
    dealt: list[Cases] = [()] * processes
    for part in divide(cases, processes):
        fewest = min(range(processes), key=lambda place: len(dealt[place]))
        # Among equally long ones the last to get a part comes first.
        dealt.insert(0, dealt.pop(fewest) + part)
    return dealt


class PartQueue:
    """Hands out the cases of two trees part by part: how long a part takes is not known before.

    The first process of one tree and the first of the other form a pair, and so on. What a case launches may depend
    on what its process has done before, so both of a pair get the same parts in the same order. One of them is at
    most a part ahead: else a tree that lacks tests, and is done with any part at once, would take all of them.

    Attributes:
        total: cases of both trees.
    """

    def __init__(self, cases: Sequence[str], processes: int) -> None:
        """Gives each pair its first part.

        Args:
            cases: of each tree.
            processes: of each tree.
        """
        self.total = 2 * len(cases)
        self._left = deque(divide(cases, processes))
        self._taken: list[list[Cases]] = [[self._left.popleft()] if self._left else [] for _ in range(processes)]
        self._asked = [0] * (2 * processes)
        self._has_left = [False] * (2 * processes)

    def take(self, process: int, number: int) -> Cases | None:
        """A further part; empty if there is none, None as long as the other process of the pair is too far behind.

        Args:
            process: from 0, those of one tree before those of the other.
            number: of the part, from 1 for each process.
        """
        pair, other = process % len(self._taken), (process + len(self._taken)) % len(self._asked)
        own = self._taken[pair]
        self._asked[process] = number
        if number == len(own) and self._left:
            if self._asked[other] < number - 1 and not self._has_left[other]:
                return None
            own.append(self._left.popleft())
        return own[number] if number < len(own) else ()

    def leave(self, process: int) -> None:
        """Has the other process of its pair not wait for this one, which has ended."""
        self._has_left[process] = True

    def close(self) -> None:
        """Gives the first pair what none has taken: no process runs any more."""
        self._taken[0] += self._left
        self._left.clear()

    def list_cases(self, process: int) -> Cases:
        """All cases that the pair of a process has taken."""
        return tuple(chain.from_iterable(self._taken[process % len(self._taken)]))


def identify_left(
    assignment: Assignment,
    processes: Sequence[MeasuredProcess],
    identify: Callable[[Sequence[Assignment]], tuple[MeasuredProcess, ...]],
    *,
    shares: int,
) -> tuple[MeasuredProcess, ...]:
    """The processes of a tree, and the retries of cases that failed processes left unidentified.

    A case that ran when its process died, or was left unusable, comes after all others and alone, so that it costs
    no other case its identity. One that took too long is not tried again, nor is one that was the first of a
    process which died.

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
        if is_interrupted(found) or not (left or suspects):
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
    # Beside others a case may run out of memory that it has alone.
    may_try_alone = may_start and process.manifest.process_failure is not None
    if process.overdue or (process.manifest.started == (running,) and not may_try_alone):
        return replace(process, cases=(running,)), left - {running}, set()
    return replace(process, failure=""), left - {running}, {running} & left


def list_repeats(trees: Sequence[Sequence[MeasuredProcess]], most: int) -> list[Cases]:
    """What processes run again, one for each tree: up to the last case whose memory may lie elsewhere by chance.

    Where memory was short, a process says so. And two trees may identify a case as the same but for addresses. What
    a case launches may depend on the cases before it in its process, so these are repeated, too: a change that only
    shows behind them shows again. A case that ran behind others in one tree than in the other is not repeated.

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


def _in_order(assignment: Assignment, cases: Collection[str]) -> tuple[str, ...]:
    return tuple(case for case in assignment.cases if case in cases)


def is_interrupted(processes: Iterable[MeasuredProcess]) -> bool:
    """Whether the user has ended any of them."""
    return any(process.end is ProcessEnd.INTERRUPTED for process in processes)


def _find_running(process: MeasuredProcess) -> str:
    """The case that ran at the end of a process, or left it unusable, "" if none did."""
    if (lost := process.manifest.process_failure) is not None:
        return lost.case
    return next((case for case in process.manifest.started if case not in process.manifest.ended), "")
