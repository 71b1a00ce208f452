"""Workers that have been started: each imports and collects by itself, then waits for its turn.

What one will measure need not be known when it is started: a look decides that, and the process after a look should
not begin with seconds of imports.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.collect.collector import Collector
from pytest_nsight.collect.process import Process
from pytest_nsight.launch.tether import Tether
from pytest_nsight.launch.turn import Turn
from pytest_nsight.manifest import FILE_NAME

_PATIENCE_S = 5.0


@dataclass(slots=True)
class Standby:
    """One started worker process.

    Attributes:
        side: which tree it measures.
        run: id of the run.
        folder: of the run.
        process: the worker, or the profiler that started it.
        tether: what it waits for.
        turn: what it measures, None before it has been told.
    """

    side: str
    run: str
    folder: Path
    process: Process
    tether: Tether
    turn: Turn | None = None

    @property
    def has_begun(self) -> bool:
        """Whether it has come as far as our code."""
        return (self.folder / FILE_NAME).exists()

    def release(self, turn: Turn) -> None:
        """Gives it its turn, once.

        Raises:
            OSError: its folder does not take it.
        """
        if self.turn is None:
            self.turn = turn
            self.tether.release(turn)

    def can_take(self, turn: Turn) -> bool:
        """Whether it measures this, or could."""
        return self.turn == turn if self.turn is not None else self.side == turn.side

    def call_off(self, collector: Collector) -> None:
        """Ends the worker without a trace of it: whatever it was to measure is no longer wanted."""
        self.tether.cut()
        try:
            with self.process:
                # It ends by itself now; a profiler then tidies up behind itself.
                self.process.wait(_PATIENCE_S)
        finally:
            collector.tidy(self.folder, keep=False)
            shutil.rmtree(self.folder, ignore_errors=True)


class Bench:
    """The workers that wait, in the order in which they were started."""

    def __init__(self, start: Callable[[str], Standby], collector: Collector, most: int) -> None:
        """Makes an empty one.

        Args:
            start: starts a worker on a side.
            collector: what records them.
            most: how many may wait.
        """
        self._start = start
        self._collector = collector
        self._most = most
        self._waiting: list[Standby] = []

    def take(self, turn: Turn) -> Standby:
        """A worker for this turn: one that waits, or a new one.

        Raises:
            CollectorError: it cannot be started.
        """
        found = next((standby for standby in self._waiting if standby.can_take(turn)), None)
        if found is None:
            return self._start(turn.side)
        self._waiting.remove(found)
        return found

    def fill(self, upcoming: Sequence[Turn]) -> None:
        """Starts a worker that these turns want and that is not there yet.

        Raises:
            CollectorError: it cannot be started.
        """
        there = [standby.side for standby in self._waiting]
        for turn in upcoming[: self._most]:
            if turn.side in there:
                there.remove(turn.side)
            elif all(standby.has_begun for standby in self._waiting):
                # One by one: two sessions of nsys 2022.4 that start in the same moment end each other.
                self._waiting.append(self._start(turn.side))
                return

    def release(self, turn: Turn) -> None:
        """Has one that waits go on with this turn, which comes next, if its cases are known."""
        if turn.cases and all(standby.turn is None for standby in self._waiting):
            for standby in self._waiting:
                if standby.can_take(turn):
                    standby.release(turn)
                    return

    def close(self) -> None:
        """Ends all of them: their turn will not come."""
        waiting, self._waiting = self._waiting, []
        for standby in waiting:
            # All at once, so that they end side by side.
            standby.tether.cut()
        for standby in waiting:
            standby.call_off(self._collector)
