"""Why a device was idle, from what the host did meanwhile. Pure.

The launch that ends a gap says which thread the device waited for. What this thread did between the end of the
device's work and the call of that launch is the cause:

* The call had returned before the gap: the launch was queued, and the device itself took the time. Of a copy, whose
  call may wait for it, the begin of the call counts.
* The thread was in a call that synchronises, or waits for a copy: the host waited and could not launch ahead. This
  accounts for the rest of the gap, too, unless the thread then was mostly in other calls of CUDA.
* The thread was mostly in calls that allocate or free memory, or that load kernels: this is what it did.
* The thread spent more than HOST_GAP_NS of the gap outside of CUDA: it ran Python or loaded data.
* The call of the launch itself took more than HOST_GAP_NS of the gap: CUDA loads a kernel as it is first launched.
* The gap ends with a migration of managed memory, which has no call: its pages were wanted elsewhere. If the gap is
  longer than HOST_GAP_NS, the host did something else meanwhile.
* Otherwise the thread was on its way to the next launch: launching limits the device.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.host_waits import flag_calls, flag_waits, is_copy_call
from pytest_nsight.analysis.intervals import Axis, TimeSet
from pytest_nsight.model.sorted_keys import rank_groups
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
    SYNCHRONISATION = "synchronisation"
    BLOCKING_COPY = "blocking copy"
    ALLOCATION = "allocating memory"
    LOADING = "loading kernels"
    HOST = "Python or data loading"
    MIGRATION = "migration of managed memory"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class _Gaps:
    """The gaps whose next launch has a call, shape (gaps,) each."""

    line: Ints
    start_ns: Ints
    end_ns: Ints
    thread: Ints
    called_ns: Ints
    launched_ns: Ints
    """When the call returned that launches a kernel, or the gap ended; when it began for all other launches."""


def is_allocation(name: str) -> bool:
    """Whether a CUDA or HIP call of this name allocates, frees or registers memory."""
    return _ALLOCATION.match(name) is not None


def is_kernel_launch(name: str) -> bool:
    """Whether a CUDA or HIP call of this name launches one kernel."""
    return "Launch" in name and "Graph" not in name


def is_loading(name: str) -> bool:
    """Whether a CUDA or HIP call of this name loads, links or looks up kernels."""
    return _LOADING.match(name) is not None


def explain_gaps(trace: Trace, details: LaunchDetails, idle: TimeSet, nexts: Ints) -> dict[IdleCause, TimeSet]:
    """The idle time of all devices by cause.

    Args:
        trace: the trace.
        details: of its launches.
        idle: the gaps; one line for each device.
        nexts: shape (gaps,), the launch that ends each gap, -1 for none.
    """
    call = details.call[nexts] if len(details.call) else np.full(len(nexts), NO_CALL)
    is_known = (nexts >= 0) & (call != NO_CALL)
    known, call = np.flatnonzero(is_known), call[is_known]
    calls = trace.calls
    number, threads = rank_groups(calls.process, calls.thread)
    with_call = TimeSet(idle.axis, idle.start[known], idle.end[known])
    line, start_ns, called_ns = with_call.line, with_call.start_ns, calls.start_ns[call]
    end_ns = start_ns + with_call.length_ns
    is_kernel = flag_calls(trace, is_kernel_launch)[call]
    launched_ns = np.where(is_kernel, np.minimum(calls.end_ns[call], end_ns), called_ns)
    gaps = _Gaps(line, start_ns, end_ns, number[call], called_ns, launched_ns)
    chosen: dict[IdleCause, Ints | slice] = {
        IdleCause.LAUNCH: slice(None),
        IdleCause.ALLOCATION: np.flatnonzero(flag_calls(trace, is_allocation)),
        IdleCause.LOADING: np.flatnonzero(flag_calls(trace, is_loading)),
    }
    inside = {cause: _find_time_inside(trace, number, threads, gaps, rows) for cause, rows in chosen.items()}
    pieces = _split(gaps, _find_waits(trace, flag_waits(trace, details), number, gaps), inside)
    found = {
        cause: TimeSet.union(
            idle.axis,
            np.concatenate([gaps.line[where] for where, _, _ in parts] or [gaps.line[:0]]),
            np.concatenate([start for _, start, _ in parts] or [gaps.line[:0]]),
            np.concatenate([end for _, _, end in parts] or [gaps.line[:0]]),
        )
        for cause, parts in pieces.items()
    }
    is_migration = np.array([shape.is_migration for shape in trace.shapes] or [False], np.bool_)
    moves = ~is_known & (nexts >= 0)
    moves[moves] = is_migration[trace.launches.shape[nexts[moves]]]
    is_long = idle.length_ns > HOST_GAP_NS
    rest = (
        (IdleCause.MIGRATION, moves & ~is_long),
        (IdleCause.HOST, moves & is_long),
        (IdleCause.UNKNOWN, ~is_known & ~moves),
    )
    for cause, flags in rest:
        gap = TimeSet(idle.axis, idle.start[flags], idle.end[flags])
        found[cause] = TimeSet.merged(found[cause], gap) if len(found[cause].start) else gap
    return found


@dataclass(frozen=True, slots=True)
class _Waits:
    """A waiting call of the thread in each gap, shape (gaps,) each.

    Attributes:
        began_ns: when the call began, or the gap if that was later.
        returned_ns: when it returned, not before it began; the gap's start where there was no such call.
        is_copy: whether it copied.
    """

    began_ns: Ints
    returned_ns: Ints
    is_copy: Flags


def _find_waits(trace: Trace, is_wait: Flags, number: Ints, gaps: _Gaps) -> tuple[_Waits, _Waits]:
    """The last waiting call before the gap, if it lasted into it, and the last one before the next launch."""
    calls = trace.calls
    copies = flag_calls(trace, is_copy_call)
    rows = np.flatnonzero(is_wait)
    if not len(rows) or not len(gaps.line):
        none = _Waits(gaps.start_ns, gaps.start_ns, np.zeros(len(gaps.line), np.bool_))
        return none, none
    low_ns, high_ns = int(calls.start_ns.min()), int(calls.end_ns.max())
    axis = Axis.over(low_ns, high_ns, int(number.max()) + 1)
    key = axis.place(number[rows], calls.start_ns[rows])
    order = np.argsort(key, kind="stable")

    def find_before(time_ns: Ints) -> _Waits:
        at = np.searchsorted(key[order], axis.place(gaps.thread, time_ns)) - 1
        row = rows[order[np.maximum(at, 0)]]
        fits = (at >= 0) & (number[row] == gaps.thread) & (calls.end_ns[row] > gaps.start_ns)
        returned_ns = np.where(fits, np.minimum(calls.end_ns[row], gaps.end_ns), gaps.start_ns)
        began_ns = np.where(fits, np.clip(calls.start_ns[row], gaps.start_ns, returned_ns), gaps.start_ns)
        return _Waits(began_ns, returned_ns, fits & copies[row])

    return find_before(gaps.start_ns), find_before(gaps.called_ns)


def _find_time_inside(trace: Trace, number: Ints, threads: int, gaps: _Gaps, rows: Ints | slice) -> TimeSet:
    """When each thread is inside any of these CUDA calls."""
    calls = trace.calls
    low_ns, high_ns = (int(calls.start_ns.min()), int(calls.end_ns.max())) if len(calls) else (0, 0)
    if len(gaps.line):
        low_ns, high_ns = min(low_ns, int(gaps.start_ns.min())), max(high_ns, int(gaps.end_ns.max()))
    axis = Axis.over(low_ns, high_ns, threads)
    return TimeSet.union(axis, number[rows], calls.start_ns[rows], calls.end_ns[rows])


_Pieces = dict[IdleCause, list[tuple[Ints, Ints, Ints]]]
"""Cause -> row of the gap, start and end of each piece."""


def _split(gaps: _Gaps, waits: tuple[_Waits, _Waits], inside: Mapping[IdleCause, TimeSet]) -> _Pieces:
    """The gaps in pieces, each with its cause.

    Args:
        gaps: the gaps.
        waits: of each gap, as `_find_waits` gives them.
        inside: when threads are in calls of a kind; of LAUNCH, in any.
    """
    first, last = waits
    called_ns = np.clip(gaps.called_ns, gaps.start_ns, gaps.end_ns)
    is_queued = gaps.launched_ns <= gaps.start_ns
    is_blocked = (last.returned_ns > gaps.start_ns) & ~is_queued
    ready_ns = np.where(is_queued, gaps.start_ns, np.minimum(last.returned_ns, called_ns))
    began_ns = np.minimum(last.began_ns, ready_ns)
    free_ns = np.minimum(first.returned_ns, began_ns)

    def measure(cause: IdleCause, low_ns: Ints, high_ns: Ints) -> Ints:
        calls = inside[cause]
        found = np.zeros(len(low_ns), np.int64)
        if len(calls.start) and len(rows := np.flatnonzero(low_ns < high_ns)):
            low, high = (calls.axis.place(gaps.thread[rows], time_ns[rows]) for time_ns in (low_ns, high_ns))
            found[rows] = calls.covered(low, high)
        return found

    def measure_own(cause: IdleCause) -> Ints:
        return measure(cause, free_ns, began_ns) + measure(cause, ready_ns, called_ns)

    inside_ns = measure(IdleCause.LAUNCH, ready_ns, called_ns)
    inside_own_ns = measure(IdleCause.LAUNCH, free_ns, began_ns) + inside_ns
    own_ns = began_ns - free_ns + called_ns - ready_ns
    allocating_ns, loading_ns = measure_own(IdleCause.ALLOCATION), measure_own(IdleCause.LOADING)
    is_preparing = (2 * (allocating_ns + loading_ns) > own_ns) & ~is_queued
    is_host = (own_ns - inside_own_ns > HOST_GAP_NS) & ~is_queued & ~is_preparing
    is_at_work = is_host | is_preparing
    is_slow = (gaps.launched_ns - called_ns > HOST_GAP_NS) & ~is_queued
    is_calling = ~is_at_work & ~is_queued & (is_slow | (2 * inside_ns > called_ns - ready_ns))
    pieces: _Pieces = {cause: [] for cause in IdleCause}

    def add(cause: IdleCause, chosen: Flags, start_ns: Ints, end_ns: Ints) -> None:
        rows = np.flatnonzero(chosen)
        pieces[cause].append((rows, start_ns[rows], end_ns[rows]))

    def add_wait(chosen: Flags, is_copy: Flags, start_ns: Ints, end_ns: Ints) -> None:
        add(IdleCause.SYNCHRONISATION, chosen & ~is_copy, start_ns, end_ns)
        add(IdleCause.BLOCKING_COPY, chosen & is_copy, start_ns, end_ns)

    def add_launch(chosen: Flags, start_ns: Ints) -> None:
        add(IdleCause.LAUNCH, chosen & ~is_slow, start_ns, gaps.end_ns)
        add(IdleCause.LOADING, chosen & is_slow, start_ns, gaps.end_ns)

    add(IdleCause.QUEUED, is_queued, gaps.start_ns, gaps.end_ns)
    add_wait(is_blocked & ~is_at_work & ~is_calling, last.is_copy, gaps.start_ns, gaps.end_ns)
    add_wait(is_blocked & is_calling, last.is_copy, gaps.start_ns, ready_ns)
    add_launch(is_calling, ready_ns)
    add_launch(~is_queued & ~is_blocked & ~is_at_work & ~is_calling, gaps.start_ns)
    add_wait(is_at_work, first.is_copy, gaps.start_ns, free_ns)
    works = (
        (IdleCause.HOST, is_host),
        (IdleCause.ALLOCATION, is_preparing & (allocating_ns >= loading_ns)),
        (IdleCause.LOADING, is_preparing & (allocating_ns < loading_ns)),
    )
    for cause, chosen in works:
        add(cause, chosen, free_ns, began_ns)
        add(cause, chosen, ready_ns, called_ns)
    add_wait(is_at_work, last.is_copy, began_ns, ready_ns)
    add_launch(is_at_work, called_ns)
    return pieces
