"""What the host did outside of CUDA while devices were idle, by its calls of the operating system. Pure.

Of each gap the thread counts that makes the next launch. In poll or in a semaphore it waits for data or for another
thread; in no call it computes, as Python does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.gap_launches import find_ending_calls
from pytest_nsight.analysis.idle_causes import IdleCause
from pytest_nsight.analysis.intervals import Axis, TimeSet
from pytest_nsight.analysis.timeline import Timeline
from pytest_nsight.model.sorted_keys import rank_groups, rank_values
from pytest_nsight.model.trace import Ints, Trace
from pytest_nsight.trace.attribution import NO_CALL
from pytest_nsight.trace.launch_table import LaunchDetails

NO_NAME = ""
"""Stands for the name where the thread is in no call."""


@dataclass(frozen=True, slots=True)
class OsCallTime:
    """Idle time during which the host is outside of CUDA and in one function of the operating system.

    Attributes:
        name: of the function, NO_NAME where the thread is in none.
        total_ns: over all devices.
        share: of all such idle time.
    """

    name: str
    total_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class _HostTimes:
    """Idle times whose cause is the host, and the call of the launch that ends the gap, shape (times,) each."""

    start_ns: Ints
    end_ns: Ints
    call: Ints


def find_os_calls(
    trace: Trace, details: LaunchDetails, timeline: Timeline, window: TimeSet
) -> tuple[OsCallTime, ...]:
    """The functions with the most time, the largest first; none where no such calls were recorded.

    Args:
        trace: the trace.
        details: of its launches.
        timeline: of its devices.
        window: what the picture is about.
    """
    calls = trace.os_calls
    if not len(calls):
        return ()
    times = _list_host_times(trace, details, timeline, window)
    whole_ns = int((times.end_ns - times.start_ns).sum())
    if not whole_ns:
        return ()
    caller = trace.calls
    process = np.concatenate([calls.process, caller.process[times.call]])
    thread, threads = rank_groups(process, np.concatenate([calls.thread, caller.thread[times.call]]))
    of_call, of_time = np.split(thread, [len(calls)])
    low_ns, high_ns = min(calls.start_ns.min(), times.start_ns.min()), max(calls.end_ns.max(), times.end_ns.max())
    axis = Axis.over(int(low_ns), int(high_ns), threads)
    edges = axis.place(of_time, times.start_ns), axis.place(of_time, times.end_ns)

    def measure(rows: Ints) -> int:
        inside = TimeSet.union(axis, of_call[rows], calls.start_ns[rows], calls.end_ns[rows])
        return int(inside.covered(*edges).sum())

    used, codes = rank_values(calls.name)
    order = np.argsort(codes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    names = [trace.strings[name] or "call without a name" for name in used.tolist()]
    totals = {name: measure(rows) for name, rows in zip(names, groups, strict=True)}
    totals[NO_NAME] = whole_ns - measure(order)
    found = (OsCallTime(name, total_ns, total_ns / whole_ns) for name, total_ns in totals.items() if total_ns)
    return tuple(sorted(found, key=lambda one: (-one.total_ns, one.name)))


def _list_host_times(trace: Trace, details: LaunchDetails, timeline: Timeline, window: TimeSet) -> _HostTimes:
    host = timeline.states[IdleCause.HOST].minus(timeline.whole().minus(window))
    gaps = timeline.busy.complement(timeline.whole())
    call = find_ending_calls(trace, details, timeline.device, gaps, host)
    known = np.flatnonzero(call != NO_CALL)
    start_ns = host.start_ns[known]
    return _HostTimes(start_ns, start_ns + host.length_ns[known], call[known])
