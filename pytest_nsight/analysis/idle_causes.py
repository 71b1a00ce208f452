"""Why a device was idle, from what the host did meanwhile. Pure.

The launch that ends a gap says which thread the device waited for. What this thread did between the end of the
device's work and the call of that launch is the cause:

* The call began before the gap: the launch was queued, and the device itself took the time.
* The thread was in a synchronising or copying call: the host waited for the device and could not launch ahead. This
  accounts for the rest of the gap, too, unless the thread then was mostly in other calls of CUDA.
* The thread spent more than HOST_GAP_NS outside of CUDA before or after that: it ran Python or loaded data.
* The gap ends with a migration of managed memory, which no call makes: a page that was touched elsewhere.
* Otherwise the thread was on its way to the next launch: launching limits the device.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.intervals import Axis, TimeSet
from pytest_nsight.model.sorted_keys import distinct, rank_groups
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.trace.attribution import NO_CALL
from pytest_nsight.trace.launch_table import LaunchDetails

HOST_GAP_NS = 200_000
"""Longer than an eager framework takes from one launch to the next, 5 to 100 us; shorter than loading a batch."""


class IdleCause(enum.Enum):
    """Why a device is idle."""

    LAUNCH = "launching"
    QUEUED = "between queued launches"
    SYNCHRONISATION = "synchronisation"
    BLOCKING_COPY = "blocking copy"
    HOST = "Python or data loading"
    PAGE_FAULT = "page faults of managed memory"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class _Gaps:
    """The gaps whose next launch has a call, shape (gaps,) each."""

    line: Ints
    start_ns: Ints
    end_ns: Ints
    thread: Ints
    called_ns: Ints


def is_synchronisation(name: str) -> bool:
    """Whether a CUDA call of this name waits for the device."""
    return "Synchronize" in name


def is_copy_call(name: str) -> bool:
    """Whether a CUDA call of this name copies, and may wait for the copy."""
    return "Memcpy" in name


def flag_calls(trace: Trace, is_wanted: Callable[[str], bool]) -> Flags:
    """Which calls have a name that fits, shape (calls,). A trace may have a million names of ranges, few of calls.

    Args:
        trace: the trace.
        is_wanted: whether a name fits.
    """
    numbers = distinct(trace.calls.name)
    fitting = [number for number in numbers.tolist() if is_wanted(trace.strings[number])]
    flags: Flags = np.isin(trace.calls.name, fitting)
    return flags


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
    start_ns = idle.start_ns
    gaps = _Gaps(
        line=idle.line[known],
        start_ns=start_ns[known],
        end_ns=(start_ns + idle.length_ns)[known],
        thread=number[call],
        called_ns=calls.start_ns[call],
    )
    pieces = _split(gaps, _find_waits(trace, number, gaps), _find_host_time(trace, number, threads, gaps))
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
    is_fault = ~is_known & (nexts >= 0)
    is_fault[is_fault] = is_migration[trace.launches.shape[nexts[is_fault]]]
    for cause, chosen in ((IdleCause.PAGE_FAULT, is_fault), (IdleCause.UNKNOWN, ~is_known & ~is_fault)):
        found[cause] = TimeSet(idle.axis, idle.start[chosen], idle.end[chosen])
    return found


@dataclass(frozen=True, slots=True)
class _Waits:
    """The thread's last waiting call before the next launch of each gap, shape (gaps,) each.

    Attributes:
        began_ns: when the call began, or the gap if that was later.
        returned_ns: when it returned, not before it began; the gap's start where there was no such call.
        is_copy: whether it copied.
    """

    began_ns: Ints
    returned_ns: Ints
    is_copy: Flags


def _find_waits(trace: Trace, number: Ints, gaps: _Gaps) -> _Waits:
    calls = trace.calls
    copies = flag_calls(trace, is_copy_call)
    rows = np.flatnonzero(flag_calls(trace, is_synchronisation) | copies)
    if not len(rows) or not len(gaps.line):
        return _Waits(gaps.start_ns, gaps.start_ns, np.zeros(len(gaps.line), np.bool_))
    low_ns, high_ns = int(calls.start_ns.min()), int(calls.end_ns.max())
    axis = Axis.over(low_ns, high_ns, int(number.max()) + 1)
    key = axis.place(number[rows], calls.start_ns[rows])
    order = np.argsort(key, kind="stable")
    at = np.searchsorted(key[order], axis.place(gaps.thread, gaps.called_ns)) - 1
    row = rows[order[np.maximum(at, 0)]]
    fits = (at >= 0) & (number[row] == gaps.thread) & (calls.end_ns[row] > gaps.start_ns)
    returned_ns = np.where(fits, np.minimum(calls.end_ns[row], gaps.end_ns), gaps.start_ns)
    began_ns = np.where(fits, np.clip(calls.start_ns[row], gaps.start_ns, returned_ns), gaps.start_ns)
    return _Waits(began_ns, returned_ns, fits & copies[row])


def _find_host_time(trace: Trace, number: Ints, threads: int, gaps: _Gaps) -> TimeSet:
    """When each thread is inside any CUDA call."""
    calls = trace.calls
    low_ns, high_ns = (int(calls.start_ns.min()), int(calls.end_ns.max())) if len(calls) else (0, 0)
    if len(gaps.line):
        low_ns, high_ns = min(low_ns, int(gaps.start_ns.min())), max(high_ns, int(gaps.end_ns.max()))
    return TimeSet.union(Axis.over(low_ns, high_ns, threads), number, calls.start_ns, calls.end_ns)


_Pieces = dict[IdleCause, list[tuple[Ints, Ints, Ints]]]
"""Cause -> row of the gap, start and end of each piece."""


def _split(gaps: _Gaps, waits: _Waits, in_calls: TimeSet) -> _Pieces:
    called_ns = np.clip(gaps.called_ns, gaps.start_ns, gaps.end_ns)
    is_queued = gaps.called_ns <= gaps.start_ns
    is_blocked = (waits.returned_ns > gaps.start_ns) & ~is_queued
    ready_ns = np.where(is_queued, gaps.start_ns, np.minimum(waits.returned_ns, called_ns))
    began_ns = np.minimum(waits.began_ns, ready_ns)

    def count_calls(low_ns: Ints, high_ns: Ints) -> Ints:
        axis = in_calls.axis
        return in_calls.covered(axis.place(gaps.thread, low_ns), axis.place(gaps.thread, high_ns))

    inside_ns = count_calls(ready_ns, called_ns)
    is_host = (called_ns - ready_ns - inside_ns > HOST_GAP_NS) & ~is_queued
    is_calling = 2 * inside_ns > called_ns - ready_ns
    # A wait that begins when the device is idle already is no cause of what came before it.
    is_late = is_blocked & (began_ns - gaps.start_ns - count_calls(gaps.start_ns, began_ns) > HOST_GAP_NS)
    waiting_ns = np.where(is_late, began_ns, gaps.start_ns)
    pieces: _Pieces = {cause: [] for cause in IdleCause}

    def add(cause: IdleCause, chosen: Flags, start_ns: Ints, end_ns: Ints) -> None:
        rows = np.flatnonzero(chosen)
        pieces[cause].append((rows, start_ns[rows], end_ns[rows]))

    add(IdleCause.QUEUED, is_queued, gaps.start_ns, gaps.end_ns)
    add(IdleCause.HOST, is_late, gaps.start_ns, began_ns)
    for cause, is_kind in (
        (IdleCause.SYNCHRONISATION, is_blocked & ~waits.is_copy),
        (IdleCause.BLOCKING_COPY, is_blocked & waits.is_copy),
    ):
        is_cut = is_host | is_calling
        add(cause, is_kind & ~is_cut, waiting_ns, gaps.end_ns)
        add(cause, is_kind & is_cut, waiting_ns, ready_ns)
    add(IdleCause.HOST, is_host, ready_ns, called_ns)
    add(IdleCause.LAUNCH, is_host, called_ns, gaps.end_ns)
    is_rest = ~is_queued & ~is_host & (~is_blocked | is_calling)
    add(IdleCause.LAUNCH, is_rest, ready_ns, gaps.end_ns)
    return pieces
