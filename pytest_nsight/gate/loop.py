"""The loop: plan what to measure, have it measured, absorb what it left behind, until nothing is left to measure.

A live session, a replay and a calibration differ in their source of runs only. No pytest, no files of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pytest_nsight.gate.absorbing import absorb
from pytest_nsight.gate.judging import StoredRuns
from pytest_nsight.gate.planning import list_upcoming, plan
from pytest_nsight.gate.state import GateState
from pytest_nsight.protocol.job import Assignment
from pytest_nsight.trace.process_record import MeasuredProcess


class Source(Protocol):
    """Where runs come from: a machine, a recorded session, or a pool of runs."""

    def execute(self, assignment: Assignment, upcoming: Sequence[Assignment] = ()) -> Sequence[MeasuredProcess]:
        """Measures cases in a fresh process, or in several side by side; none where a recording has no more.

        Args:
            assignment: what to measure.
            upcoming: the next calls' assignments if nothing happens in between; one without cases may come, and
                nobody knows yet for which cases.
        """

    def close(self) -> None:
        """Ends what was prepared for a next call that will not come."""


def run_loop(
    state: GateState,
    source: Source,
    load: Callable[[str], StoredRuns],
    watch: Callable[[GateState], bool] = lambda _: True,
) -> GateState:
    """The state after everything is measured that the plan and the looks ask for.

    Args:
        state: to go on from.
        source: where runs come from.
        load: product name of the device -> the runs to compare with; "" before anything was measured.
        watch: called with the state before each process; False ends the loop.

    Raises:
        NsightError: the source cannot go on.
    """
    while True:
        state = plan(state, load(state.device))
        if not state.pending or state.is_interrupted or not watch(state):
            return state
        state = absorb(state, source.execute(state.pending[0].assignment, list_upcoming(state)))
