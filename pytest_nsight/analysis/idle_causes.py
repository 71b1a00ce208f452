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

import enum
import re
from collections.abc import Mapping, Sequence

import numpy as np

from pytest_nsight.analysis.gap_launches import (
    NO_LAUNCH,
    Gaps,
    HostThreads,
    Waits,
    describe_gaps,
    find_launches,
    find_threads_before,
    find_waits,
)
from pytest_nsight.analysis.host_waits import is_copy_call
from pytest_nsight.analysis.intervals import Axis, TimeSet
from pytest_nsight.model.api_calls import flag_calls
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.trace.attribution import NO_CALL
from pytest_nsight.trace.launch_table import LaunchDetails

HOST_GAP_NS = 200_000
"""Longer than an eager framework takes from one launch to the next, 5 to 100 us; shorter than loading a batch."""


_ALLOCATION = re.compile(
    "(cuda|cu|hip)(Mem)?(Malloc|Alloc|Free|Host(Alloc|Malloc|Free|Register|Unregister)|Create$|Map$|Unmap$|Release$)"
)
_LOADING = re.compile("(cuda|cu|hip)(Library|Module|Link)(Load|Add|Complete|Get)|cuKernelGetFunction|cuFuncLoad")


class IdleCause(enum.Enum):
    """Why a device is idle."""

    LAUNCH = "launching"
    QUEUED = "between queued launches"
    DEPENDENCY = "launched and not started"
    SYNCHRONISATION = "synchronisation"
    BLOCKING_COPY = "blocking copy"
    ALLOCATION = "allocating memory"
    LOADING = "loading kernels"
    HOST = "Python or data loading"
    MIGRATION = "migration of managed memory"
    FINISHED = "no further work"
    UNRECORDED = "unrecorded work"
    """The device may not be idle: kernels were launched that are not in the recording."""
    UNKNOWN = "unknown"


def is_allocation(name: str) -> bool:
    """Whether a CUDA or HIP call of this name allocates, frees or registers memory."""
    return _ALLOCATION.match(name) is not None


def is_loading(name: str) -> bool:
    """Whether a CUDA or HIP call of this name loads, links or looks up kernels."""
    return _LOADING.match(name) is not None


_WAITS = (IdleCause.SYNCHRONISATION, IdleCause.BLOCKING_COPY)

_Parts = list[tuple[Ints, Ints, Ints]]
"""Row of the gap, start and end of each piece."""
_Pieces = dict[IdleCause, _Parts]


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
    until = gaps.start_ns, gaps.called_ns
    first, last = find_waits(trace, waits, threads, gaps, gaps.thread, until)
    if threads.count > 1:
        previous = find_launches(trace, device, known, before=True)
        thread = find_threads_before(trace, details, threads, gaps, previous)
        is_silent = _measure_inside(inside[IdleCause.LAUNCH], gaps, gaps.start_ns, gaps.called_ns) == 0
        is_handed = (thread != gaps.thread) & is_silent
        others = find_waits(trace, waits, threads, gaps, thread, until)
        first, last = (own.replaced(other, is_handed) for own, other in zip((first, last), others, strict=True))
    pieces, prepared = _split(gaps, (first, last), inside)
    found = {cause: _unite(idle.axis, gaps, parts) for cause, parts in pieces.items()}
    for cause, parts in prepared.items():
        own = _unite(idle.axis, gaps, parts)
        found = {other: times.minus(own) for other, times in found.items()}
        found[cause] = TimeSet.merged(found[cause], own)
    is_migration = np.array([shape.is_migration for shape in trace.shapes] or [False], np.bool_)
    moves = ~is_known & (nexts != NO_LAUNCH)
    moves[moves] = is_migration[trace.launches.shape[nexts[moves]]]
    is_long = idle.length_ns > HOST_GAP_NS
    rest = (
        (IdleCause.MIGRATION, moves & ~is_long),
        (IdleCause.HOST, moves & is_long),
        (IdleCause.FINISHED, nexts == NO_LAUNCH),
        (IdleCause.UNKNOWN, ~is_known & ~moves & (nexts != NO_LAUNCH)),
    )
    for cause, flags in rest:
        gap = TimeSet(idle.axis, idle.start[flags], idle.end[flags])
        found[cause] = TimeSet.merged(found[cause], gap) if len(found[cause].start) else gap
    return found


def _unite(axis: Axis, gaps: Gaps, parts: _Parts) -> TimeSet:
    """The time of some pieces of gaps."""
    return TimeSet.union(
        axis,
        np.concatenate([gaps.line[where] for where, _, _ in parts] or [gaps.line[:0]]),
        np.concatenate([start for _, start, _ in parts] or [gaps.line[:0]]),
        np.concatenate([end for _, _, end in parts] or [gaps.line[:0]]),
    )


def _find_time_inside(trace: Trace, threads: HostThreads, gaps: Gaps, rows: Ints | slice) -> TimeSet:
    """When each thread is inside any of these CUDA calls."""
    calls = trace.calls
    low_ns, high_ns = (int(calls.start_ns.min()), int(calls.end_ns.max())) if len(calls) else (0, 0)
    if len(gaps.line):
        low_ns, high_ns = min(low_ns, int(gaps.start_ns.min())), max(high_ns, int(gaps.end_ns.max()))
    axis = Axis.over(low_ns, high_ns, threads.count)
    return TimeSet.union(axis, threads.of_call[rows], calls.start_ns[rows], calls.end_ns[rows])


def _measure_inside(calls: TimeSet, gaps: Gaps, low_ns: Ints, high_ns: Ints) -> Ints:
    """How long the thread of each gap's launch is inside some calls between two times, shape (gaps,)."""
    found = np.zeros(len(low_ns), np.int64)
    if len(calls.start) and len(rows := np.flatnonzero(low_ns < high_ns)):
        low, high = (calls.axis.place(gaps.thread[rows], time_ns[rows]) for time_ns in (low_ns, high_ns))
        found[rows] = calls.covered(low, high)
    return found


def _cut_out(calls: TimeSet, gaps: Gaps, low_ns: Ints, high_ns: Ints) -> tuple[Ints, Ints, Ints]:
    """Row of the gap, start and end of each piece between two times in which its thread is inside some calls."""
    rows = np.flatnonzero(low_ns < high_ns)
    low, high = (calls.axis.place(gaps.thread[rows], time_ns[rows]) for time_ns in (low_ns, high_ns))
    begin = np.searchsorted(calls.end, low, side="right")
    pieces = np.maximum(np.searchsorted(calls.start, high) - begin, 0)
    of_row = np.repeat(np.arange(len(rows)), pieces)
    call = np.arange(len(of_row)) - np.repeat(np.cumsum(pieces) - pieces, pieces) + begin[of_row]
    row = rows[of_row]
    start, end = np.maximum(calls.start[call], low[of_row]), np.minimum(calls.end[call], high[of_row])
    return row, low_ns[row] + start - low[of_row], low_ns[row] + end - low[of_row]


def _find_inside(
    inside: Mapping[IdleCause, TimeSet],
    gaps: Gaps,
    windows: Sequence[tuple[Ints, Ints]],
    chosen: Mapping[IdleCause, Flags],
) -> _Pieces:
    """The pieces of some gaps in which the thread is in calls of a kind.

    Args:
        inside: when threads are in calls of a kind.
        gaps: the gaps.
        windows: begin and end, shape (gaps,) each.
        chosen: kind -> which gaps, shape (gaps,).
    """
    return {
        cause: [_cut_out(inside[cause], gaps, low, np.where(flags, high, low)) for low, high in windows]
        for cause, flags in chosen.items()
    }


def _split(gaps: Gaps, waits: tuple[Waits, Waits], inside: Mapping[IdleCause, TimeSet]) -> tuple[_Pieces, _Pieces]:
    """The gaps in pieces, each with its cause; and parts of these pieces that have a cause of their own.

    Args:
        gaps: the gaps.
        waits: of each gap: the last one before it, if it lasted into it, and the last one before the next launch.
        inside: when threads are in calls of a kind; of LAUNCH, in any.
    """
    first, last = waits
    called_ns = np.clip(gaps.called_ns, gaps.start_ns, gaps.end_ns)
    is_queued = np.where(gaps.is_kernel, gaps.returned_ns, gaps.called_ns) <= gaps.start_ns
    # From here on the host was done, and the device could have begun.
    done_ns = np.maximum(gaps.returned_ns, gaps.start_ns)
    is_dependent = gaps.end_ns - done_ns > HOST_GAP_NS
    end_ns = np.where(is_dependent, done_ns, gaps.end_ns)
    is_blocked = (last.returned_ns > gaps.start_ns) & ~is_queued
    ready_ns = np.where(is_queued, gaps.start_ns, np.minimum(last.returned_ns, called_ns))
    began_ns = np.minimum(last.began_ns, ready_ns)
    free_ns = np.minimum(first.returned_ns, began_ns)

    def measure(cause: IdleCause, low_ns: Ints, high_ns: Ints) -> Ints:
        return _measure_inside(inside[cause], gaps, low_ns, high_ns)

    def measure_own(cause: IdleCause) -> Ints:
        return measure(cause, free_ns, began_ns) + measure(cause, ready_ns, called_ns)

    inside_ns = measure(IdleCause.LAUNCH, ready_ns, called_ns)
    outside_ns = (
        began_ns - free_ns - measure(IdleCause.LAUNCH, free_ns, began_ns) + called_ns - ready_ns - inside_ns
    )
    allocating_ns, loading_ns = measure_own(IdleCause.ALLOCATION), measure_own(IdleCause.LOADING)
    is_host = (outside_ns > HOST_GAP_NS) & ~is_queued
    is_slow = gaps.is_kernel & (gaps.returned_ns - called_ns > HOST_GAP_NS) & ~is_queued
    is_calling = ~is_host & ~is_queued & (is_slow | (2 * inside_ns > called_ns - ready_ns))
    pieces: _Pieces = {cause: [] for cause in IdleCause}

    def add(cause: IdleCause, chosen: Flags, start_ns: Ints, end_ns: Ints) -> None:
        rows = np.flatnonzero(chosen)
        pieces[cause].append((rows, start_ns[rows], end_ns[rows]))

    def add_wait(chosen: Flags, is_copy: Flags, start_ns: Ints, end_ns: Ints) -> None:
        add(IdleCause.SYNCHRONISATION, chosen & ~is_copy, start_ns, end_ns)
        add(IdleCause.BLOCKING_COPY, chosen & is_copy, start_ns, end_ns)

    def add_launch(chosen: Flags, start_ns: Ints) -> None:
        is_loaded = is_slow & gaps.is_first
        add(IdleCause.LAUNCH, chosen & ~is_loaded, start_ns, end_ns)
        add(IdleCause.LOADING, chosen & is_loaded, start_ns, end_ns)

    add(IdleCause.QUEUED, is_queued, gaps.start_ns, end_ns)
    add(IdleCause.DEPENDENCY, is_dependent, done_ns, gaps.end_ns)
    # A thread that serves several devices waits for another one between the first wait and the last.
    lasted_ns = _add_waits(first, last, [measure(cause, free_ns, began_ns) for cause in _WAITS])
    is_late = is_blocked & ~is_host & ~is_calling
    # Without the wait all that follows would come earlier: it stands behind the time that the wait costs.
    late_ns = np.minimum(end_ns - allocating_ns - loading_ns, np.maximum(ready_ns, gaps.start_ns + lasted_ns))
    allocated_ns = late_ns + allocating_ns
    add_wait(is_late, last.is_copy, gaps.start_ns, late_ns)
    add(IdleCause.ALLOCATION, is_late, late_ns, allocated_ns)
    add(IdleCause.LOADING, is_late, allocated_ns, allocated_ns + loading_ns)
    add_launch(is_late, allocated_ns + loading_ns)
    add_wait(is_blocked & is_calling, last.is_copy, gaps.start_ns, ready_ns)
    add_launch(is_calling, ready_ns)
    add_launch(~is_queued & ~is_blocked & ~is_host & ~is_calling, gaps.start_ns)
    add_wait(is_host, first.is_copy, gaps.start_ns, free_ns)
    add(IdleCause.HOST, is_host, free_ns, began_ns)
    add(IdleCause.HOST, is_host, ready_ns, called_ns)
    add_wait(is_host, last.is_copy, began_ns, ready_ns)
    add_launch(is_host, called_ns)
    windows = (free_ns, began_ns), (ready_ns, called_ns)
    chosen = dict.fromkeys((IdleCause.ALLOCATION, IdleCause.LOADING), ~is_late & ~is_queued)
    return pieces, _find_inside(inside, gaps, windows, chosen | dict.fromkeys(_WAITS, is_host))


def _add_waits(first: Waits, last: Waits, between_ns: Sequence[Ints]) -> Ints:
    """How long the waits of each gap lasted, shape (gaps,): the first, those between, and the last."""
    is_one = first.returned_ns == last.returned_ns
    return np.where(is_one, last.length_ns, first.length_ns + np.sum(between_ns, axis=0) + last.length_ns)
