"""How the cases of an identity pass are shared out to processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain, groupby

_MOST_PROCESSES = 8
_CPUS_PER_PROCESS = 2
_CASES_PER_PROCESS = 8
"""Starting a process takes about as long as identifying this many cases."""
_PARTS_OF_PROCESS = 3

Cases = tuple[str, ...]


def count_processes(cases: Sequence[str], cpus: int) -> int:
    """How many processes identify the cases of a tree side by side.

    Args:
        cases: of the tree.
        cpus: of this machine.
    """
    return max(1, min(_MOST_PROCESSES, cpus // _CPUS_PER_PROCESS, len(cases) // _CASES_PER_PROCESS))


def count_early(cpus: int, *, is_narrowed: bool) -> int:
    """How many processes of a tree may start before its cases are known.

    Args:
        cpus: of this machine.
        is_narrowed: whether few cases are likely.
    """
    return 1 if is_narrowed else max(1, min(_MOST_PROCESSES, cpus // _CPUS_PER_PROCESS))


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
