"""A worker that has been started: it imports and collects by itself, then waits for its turn."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from pytest_nsight.collect.collector import Collector
from pytest_nsight.collect.process import Process
from pytest_nsight.launch.tether import Tether
from pytest_nsight.launch.turn import Turn

_PATIENCE_S = 5.0


@dataclass(slots=True)
class Standby:
    """One started worker process.

    Attributes:
        turn: what it will measure.
        run: id of the run.
        folder: of the run.
        process: the worker, or the profiler that started it.
        tether: what it waits for.
    """

    turn: Turn
    run: str
    folder: Path
    process: Process
    tether: Tether

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
