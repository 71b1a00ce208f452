"""Why a device was idle, from what the host did meanwhile. Pure.

The launch that ends a gap says which thread the device waited for. What this thread did between the end of the
device's work and the call of that launch is the cause:

* The call had returned before the gap: the launch was queued, and the device itself took the time. Of a copy, whose
  call may wait for it, the begin of the call counts.
* The call had returned more than HOST_GAP_NS before the launch began: since then the launch waited for work of
  another stream, device or process, however late it was launched.
* The thread was in a call that synchronises, or waits for a copy: the host waited and could not launch ahead.
  Without the call the next launch would come as much earlier as the call lasted. So it accounts for that much of
  the gap, and launching for the rest; or other calls of CUDA, where the thread then was mostly in them. If the
  thread made no call meanwhile, it goes on where the thread waited that launched what ran before the gap.
* The thread was in calls that allocate or free memory, or that load kernels: they account for the time in them.
* The thread spent more than HOST_GAP_NS of the gap outside of CUDA: it ran Python or loaded data in the rest, apart
  from further calls in which it waited, such as for another device.
* The call of a kernel's first launch itself took more than HOST_GAP_NS of the gap: CUDA loads the kernel.
* No launch ends the gap: the device had no further work, while others had.
* The gap ends with a migration of managed memory, which has no call: its pages were wanted elsewhere. If the gap is
  longer than HOST_GAP_NS, the host did something else meanwhile.
* Otherwise the thread was on its way to the next launch: launching limits the device.
"""

from __future__ import annotations

import numpy as np

from pytest_nsight.analysis.gap_launches import (
    NO_LAUNCH,
    Gaps,
    HostThreads,
    describe_gaps,
    find_launches,
    find_threads_before,
    find_waits,
)
from pytest_nsight.analysis.gap_pieces import Parts, Pieces, cut_gaps, measure_inside
from pytest_nsight.analysis.host_waits import is_copy_call
from pytest_nsight.analysis.idle_causes import HOST_GAP_NS, IdleCause, is_allocation, is_loading
from pytest_nsight.analysis.intervals import Axis, TimeSet
from pytest_nsight.model.api_calls import flag_calls
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.trace.attribution import NO_CALL
from pytest_nsight.trace.launch_table import LaunchDetails


def explain_gaps(
    trace: Trace, details: LaunchDetails, waits: Flags, idle: TimeSet, device: Ints
) -> dict[IdleCause, TimeSet]:
    """The idle time of all devices by cause.

    Args:
        trace: the trace.
        details: of its launches.
        waits: shape (calls,), in which calls the host waits.
        idle: the gaps; one line for each device.
        device: shape (launches,), line of each launch.
    """
    nexts = find_launches(trace, device, idle)
    call = details.call[nexts] if len(details.call) else np.full(len(nexts), NO_CALL)
    is_known = (nexts != NO_LAUNCH) & (call != NO_CALL)
    known = TimeSet(idle.axis, idle.start[is_known], idle.end[is_known])
    threads = HostThreads.of(trace)
    gaps = describe_gaps(trace, threads, known, nexts[is_known], call[is_known])
    inside = _find_calls(trace, waits, threads, gaps)
    until = gaps.start_ns, gaps.called_ns
    first, last = find_waits(trace, waits, threads, gaps, gaps.thread, until)
    if threads.count > 1:
        previous = find_launches(trace, device, known, before=True)
        thread = find_threads_before(trace, details, threads, gaps, previous)
        is_silent = measure_inside(inside[IdleCause.LAUNCH], gaps, *until) == 0
        is_handed = (thread != gaps.thread) & is_silent
        others = find_waits(trace, waits, threads, gaps, thread, until)
        first, last = (own.replaced(other, is_handed) for own, other in zip((first, last), others, strict=True))
    found = _join_pieces(idle.axis, gaps, *cut_gaps(gaps, (first, last), inside))
    for cause, flags in _explain_without_call(trace, idle, nexts, is_known).items():
        gap = TimeSet(idle.axis, idle.start[flags], idle.end[flags])
        found[cause] = TimeSet.merged(found[cause], gap) if len(found[cause].start) else gap
    return found


def _find_calls(trace: Trace, waits: Flags, threads: HostThreads, gaps: Gaps) -> dict[IdleCause, TimeSet]:
    """When threads are in calls that wait, that allocate memory or that load kernels; of LAUNCH, in any call."""
    is_copy = flag_calls(trace, is_copy_call)
    chosen: dict[IdleCause, Ints | slice] = {
        IdleCause.LAUNCH: slice(None),
        IdleCause.SYNCHRONISATION: np.flatnonzero(waits & ~is_copy),
        IdleCause.BLOCKING_COPY: np.flatnonzero(waits & is_copy),
        IdleCause.ALLOCATION: np.flatnonzero(flag_calls(trace, is_allocation)),
        IdleCause.LOADING: np.flatnonzero(flag_calls(trace, is_loading)),
    }
    inside = {cause: _find_time_inside(trace, threads, gaps, rows) for cause, rows in chosen.items()}
    # An allocation may load a kernel: no instant counts twice.
    inside[IdleCause.LOADING] = inside[IdleCause.LOADING].minus(inside[IdleCause.ALLOCATION])
    return inside


def _find_time_inside(trace: Trace, threads: HostThreads, gaps: Gaps, rows: Ints | slice) -> TimeSet:
    """When each thread is inside any of these CUDA calls."""
    calls = trace.calls
    low_ns, high_ns = (int(calls.start_ns.min()), int(calls.end_ns.max())) if len(calls) else (0, 0)
    if len(gaps.line):
        low_ns, high_ns = min(low_ns, int(gaps.start_ns.min())), max(high_ns, int(gaps.end_ns.max()))
    axis = Axis.over(low_ns, high_ns, threads.count)
    return TimeSet.union(axis, threads.of_call[rows], calls.start_ns[rows], calls.end_ns[rows])


def _join_pieces(axis: Axis, gaps: Gaps, pieces: Pieces, prepared: Pieces) -> dict[IdleCause, TimeSet]:
    """The time of each cause.

    Args:
        axis: of the gaps.
        gaps: the gaps.
        pieces: that the gaps consist of.
        prepared: parts of them, which count for their own causes only.
    """
    found = {cause: _unite(axis, gaps, parts) for cause, parts in pieces.items()}
    for cause, parts in prepared.items():
        own = _unite(axis, gaps, parts)
        found = {other: times.minus(own) for other, times in found.items()}
        found[cause] = TimeSet.merged(found[cause], own)
    return found


def _unite(axis: Axis, gaps: Gaps, parts: Parts) -> TimeSet:
    """The time of some pieces of gaps."""
    return TimeSet.union(
        axis,
        np.concatenate([gaps.line[where] for where, _, _ in parts] or [gaps.line[:0]]),
        np.concatenate([start for _, start, _ in parts] or [gaps.line[:0]]),
        np.concatenate([end for _, _, end in parts] or [gaps.line[:0]]),
    )


def _explain_without_call(trace: Trace, idle: TimeSet, nexts: Ints, is_known: Flags) -> dict[IdleCause, Flags]:
    """The causes of gaps whose next launch has no call; flags of shape (gaps,) for each cause.

    Args:
        trace: the trace.
        idle: the gaps.
        nexts: shape (gaps,), the launch that ends each, NO_LAUNCH where there is none.
        is_known: shape (gaps,), whether that launch has a call.
    """
    is_migration = np.array([shape.is_migration for shape in trace.shapes] or [False], np.bool_)
    moves = ~is_known & (nexts != NO_LAUNCH)
    moves[moves] = is_migration[trace.launches.shape[nexts[moves]]]
    is_long = idle.length_ns > HOST_GAP_NS
    return {
        IdleCause.MIGRATION: moves & ~is_long,
        IdleCause.HOST: moves & is_long,
        IdleCause.FINISHED: nexts == NO_LAUNCH,
        IdleCause.UNKNOWN: ~is_known & ~moves & (nexts != NO_LAUNCH),
    }
