"""When a device that seems idle may have run kernels that are not in the recording. Pure.

Under older versions of Nsight Systems CUDA graphs leave no kernels unless they are traced by node, and a profiler
may lose records. From the call that launched such work until its process has waited, the device may have been busy.
The work has ended at the latest when the next recorded work of the device begins: most programs use one stream.
"""

from __future__ import annotations

import numpy as np

from pytest_nsight.analysis.intervals import TimeSet
from pytest_nsight.model.sorted_keys import distinct, join_keys
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.lost_kernels import flag_without_kernel


def find_unrecorded(trace: Trace, details: LaunchDetails, waits: Flags, idle: TimeSet, device: Ints) -> TimeSet:
    """The part of the idle time in which devices may have worked; of all devices that the call's process uses.

    Args:
        trace: the trace.
        details: of its launches.
        waits: shape (calls,), in which calls the host waits.
        idle: the gaps; one line for each device.
        device: shape (launches,), line of each launch.
    """
    calls, lines = trace.calls, idle.axis.lines
    rows = np.flatnonzero(flag_without_kernel(trace, details)) if len(idle.start) else np.empty(0, np.int64)
    if not len(rows):
        return TimeSet(idle.axis, rows, rows)
    until_ns = _find_returns(trace, np.flatnonzero(waits), rows)
    start, end = [], []
    for pair in distinct(trace.launches.process * lines + device).tolist():
        own = np.flatnonzero(calls.process[rows] == pair // lines)
        line = np.full(len(own), pair % lines, np.int64)
        begin, stop = idle.axis.place(line, calls.start_ns[rows[own]]), idle.axis.place(line, until_ns[own])
        gap = np.searchsorted(idle.end, begin, side="right")
        known = np.flatnonzero(gap < len(idle.end))
        start.append(np.maximum(begin[known], idle.start[gap[known]]))
        end.append(np.minimum(stop[known], idle.end[gap[known]]))
    low, high = np.concatenate(start), np.concatenate(end)
    kept = high > low
    nothing = TimeSet(idle.axis, rows[:0], rows[:0])
    return TimeSet.merged(nothing, TimeSet(idle.axis, low[kept], high[kept]))


def _find_returns(trace: Trace, waiting: Ints, rows: Ints) -> Ints:
    """When the next call that waits returns in the process of each call; the end of time where there is none."""
    calls = trace.calls
    waiting = waiting[np.argsort(calls.start_ns[waiting], kind="stable")]
    offered, wanted = join_keys(
        (calls.process[waiting], calls.start_ns[waiting]), (calls.process[rows], calls.start_ns[rows])
    )
    order = np.argsort(offered, kind="stable")
    at = np.searchsorted(offered[order], wanted)
    found = np.full(len(rows), np.iinfo(np.int64).max // 2)
    known = np.flatnonzero(at < len(order))
    row = waiting[order[at[known]]]
    is_own = calls.process[row] == calls.process[rows[known]]
    found[known[is_own]] = calls.end_ns[row[is_own]]
    return found
