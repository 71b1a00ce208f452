"""Which board does which step next: steps are taken in their order, by whichever board is free."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.gpu.release.lane import Lane


@dataclass(frozen=True)
class Step:
    """What a board does from its begin to its end.

    Attributes:
        do: what runs on a board.
        least_s: device time without which it does not begin, in seconds.
        is_quiet: whether the other boards wait meanwhile, since they share the host and its seconds are a figure.
        on_each: whether each board does it, and not one of them.
        after: a step that has to have ended before, on all boards that do it, if it was asked for.
        is_elsewhere: whether another board than that of `after` does it; with one board nobody does.
    """

    do: Callable[[Lane], None]
    least_s: float
    is_quiet: bool = False
    on_each: bool = False
    after: str = ""
    is_elsewhere: bool = False


class StepQueue:
    """Steps that boards take.

    Args:
        steps: what is asked for, by name, in the order in which boards take it.
        boards: how many there are.
    """

    def __init__(self, steps: Mapping[str, Step], boards: int) -> None:
        self._steps = dict(steps)
        self._waiting: list[tuple[str, Sequence[int]]] = []
        for name, step in self._steps.items():
            self._waiting += (
                [(name, [board]) for board in range(boards)] if step.on_each else [(name, range(boards))]
            )
        self._running: dict[int, str] = {}
        self._done_by: dict[str, int] = {}
        self._active, self._idle = set(range(boards)), set[int]()
        self._changed = threading.Condition()

    def take(self, board: int, left_s: Callable[[], float]) -> str | None:
        """The next step of a board, as soon as it may begin; None when there is none for it any more.

        Args:
            board: its number, from 0.
            left_s: device time that is left, in seconds.
        """
        with self._changed:
            while possible := self._possible(board, left_s()):
                ready = next(filter(self._is_ready, possible), None)
                if ready is not None and self._is_quiet_enough(ready):
                    self._waiting.remove(ready)
                    self._running[board] = ready[0]
                    self._done_by[ready[0]] = board
                    return ready[0]
                self._active.discard(board)
                self._idle.add(board)
                if not self._active:
                    break  # Nobody is left who could end what this board waits for.
                self._changed.wait()
            self._active.discard(board)
            self._idle.discard(board)
            self._say_that_it_changed()
            return None

    def end(self, board: int) -> None:
        """Says that the step of a board has ended."""
        with self._changed:
            del self._running[board]
            self._say_that_it_changed()

    def _say_that_it_changed(self) -> None:
        self._active |= self._idle
        self._idle.clear()
        self._changed.notify_all()

    def _possible(self, board: int, left_s: float) -> list[tuple[str, Sequence[int]]]:
        """What waits and the board can do, now or later."""

        def can_do(name: str, boards: Sequence[int]) -> bool:
            step = self._steps[name]
            is_elsewhere = not step.is_elsewhere or self._done_by.get(step.after) != board
            return board in boards and step.least_s <= left_s and is_elsewhere

        return [entry for entry in self._waiting if can_do(*entry)]

    def _is_ready(self, entry: tuple[str, Sequence[int]]) -> bool:
        """Whether what has to end before it has ended."""
        after = self._steps[entry[0]].after
        return after not in self._running.values() and all(after != waiting for waiting, _ in self._waiting)

    def _is_quiet_enough(self, entry: tuple[str, Sequence[int]]) -> bool:
        running = [self._steps[name] for name in self._running.values()]
        return not running or not (self._steps[entry[0]].is_quiet or any(step.is_quiet for step in running))
