"""What is known of each launch before ranges come in: its call, where that was made, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_nsight.trace.attribution import NO_CALL, find_calls
from pytest_nsight.trace.model import ANY_THREAD, COMPUTE_KINDS, Flags, Ints, Trace


@dataclass(frozen=True, slots=True)
class Facts:
    """What sums and searches need to know of each launch, shape (launches,) each.

    Attributes:
        call: row of the call that made it, NO_CALL if unknown.
        is_placed: whether it is known where on the host it was launched.
        is_compute: kernel, graph or operator, as opposed to a copy.
        duration_ns: int64.
        launch_ns: duration of its call, for the first computing launch of each call; else 0.
    """

    call: Ints
    is_placed: Flags
    is_compute: Flags
    duration_ns: Ints
    launch_ns: Ints

    @classmethod
    def of(cls, trace: Trace) -> Facts:
        """Look up the call of each launch, and add what follows from it."""
        launches, calls = trace.launches, trace.calls
        kinds = np.array([shape.kind for shape in trace.shapes], np.str_)
        call = find_calls(trace)
        is_compute = np.isin(kinds, COMPUTE_KINDS)[launches.shape]
        is_operator = (kinds == "operator")[launches.shape]
        # All launches of a call share its ranges, so that its time can be booked on one of them.
        candidates = np.flatnonzero(is_compute & (call != NO_CALL))
        booked = np.full(len(calls), -1, np.int64)
        booked[call[candidates]] = candidates
        with_launch = np.flatnonzero(booked >= 0)
        launch_ns = np.zeros(len(launches), np.int64)
        launch_ns[booked[with_launch]] = np.maximum(calls.end_ns - calls.start_ns, 0)[with_launch]
        return cls(
            call=call,
            is_placed=(call != NO_CALL) | is_operator,
            is_compute=is_compute,
            duration_ns=np.maximum(launches.end_ns - launches.start_ns, 0),
            launch_ns=launch_ns,
        )

    def origin(self, trace: Trace, launched: Ints) -> tuple[Ints, Ints]:
        """Thread and time of launching, shape (launched,) each; an operator without a call is its own."""
        call = self.call[launched]
        is_own = call == NO_CALL
        if not is_own.any():
            return trace.calls.thread[call], trace.calls.start_ns[call]
        thread = np.full(len(launched), ANY_THREAD, np.int64)
        time_ns = trace.launches.start_ns[launched]
        thread[~is_own] = trace.calls.thread[call[~is_own]]
        time_ns[~is_own] = trace.calls.start_ns[call[~is_own]]
        return thread, time_ns
