"""The gaps of devices, the launch that ends each, and the call that the host waited in before it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.host_waits import is_copy_call
from pytest_nsight.analysis.intervals import Axis, TimeSet
from pytest_nsight.model.api_calls import flag_calls, launches_one_kernel
from pytest_nsight.model.sorted_keys import rank_groups
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.trace.attribution import NO_CALL
from pytest_nsight.trace.launch_table import LaunchDetails

NO_LAUNCH = -1


@dataclass(frozen=True, slots=True)
class HostThreads:
    """The threads that made calls.

    Attributes:
        of_call: shape (calls,), number of the thread of each.
        count: number of threads.
    """

    of_call: Ints
    count: int

    @classmethod
    def of(cls, trace: Trace) -> HostThreads:
        """The threads of a trace."""
        return cls(*rank_groups(trace.calls.process, trace.calls.thread))


@dataclass(frozen=True, slots=True)
class Gaps:
    """The gaps whose next launch has a call, shape (gaps,) each.

    Attributes:
        line: of the device.
        start_ns: when its work ended.
        end_ns: when the next launch began.
        thread: number of the thread that made the call.
        called_ns: when the call began.
        returned_ns: when it returned, or the gap ended.
        is_kernel: whether the call launches one kernel.
        is_first: whether the launch is the first one of its kernel.
    """

    line: Ints
    start_ns: Ints
    end_ns: Ints
    thread: Ints
    called_ns: Ints
    returned_ns: Ints
    is_kernel: Flags
    is_first: Flags


def find_launches(trace: Trace, device: Ints, idle: TimeSet, *, before: bool = False) -> Ints:
    """The launch that ends each gap, or the one whose end begins it; NO_LAUNCH where there is none.

    Args:
        trace: the trace.
        device: shape (launches,), line of each launch.
        idle: the gaps.
        before: whether the launch before each gap is wanted.
    """
    times_ns, wanted = (trace.launches.end_ns, idle.start) if before else (trace.launches.start_ns, idle.end)
    places = idle.axis.place(device, times_ns)
    if not len(places):
        return np.full(len(wanted), NO_LAUNCH)
    order = np.argsort(places, kind="stable")
    at = order[np.minimum(np.searchsorted(places[order], wanted), len(order) - 1)]
    found: Ints = np.where(places[at] == wanted, at, NO_LAUNCH)
    return found


def find_ending_calls(trace: Trace, details: LaunchDetails, device: Ints, gaps: TimeSet, parts: TimeSet) -> Ints:
    """For each part of a gap the call of the launch that ends the gap, NO_CALL where none is known; shape (parts,).

    Args:
        trace: the trace.
        details: of its launches.
        device: shape (launches,), line of each launch.
        gaps: one line for each device.
        parts: of the gaps.
    """
    launch = find_launches(trace, device, gaps)[np.searchsorted(gaps.end, parts.start, side="right")]
    calls: Ints = np.where(launch == NO_LAUNCH, NO_CALL, details.call[launch])
    return calls


def describe_gaps(trace: Trace, threads: HostThreads, gaps: TimeSet, launch: Ints, call: Ints) -> Gaps:
    """What is known of gaps whose next launch has a call.

    Args:
        trace: the trace.
        threads: of the trace.
        gaps: one line for each device.
        launch: shape (gaps,), the launch that ends each.
        call: shape (gaps,), its call.
    """
    start_ns = gaps.start_ns
    end_ns = start_ns + gaps.length_ns
    return Gaps(
        line=gaps.line,
        start_ns=start_ns,
        end_ns=end_ns,
        thread=threads.of_call[call],
        called_ns=trace.calls.start_ns[call],
        returned_ns=np.minimum(trace.calls.end_ns[call], end_ns),
        is_kernel=flag_calls(trace, launches_one_kernel)[call],
        is_first=_flag_first(trace, launch),
    )


def _flag_first(trace: Trace, launch: Ints) -> Flags:
    """Whether each launch is the first one of its kernel in its process, whatever its grid."""
    launches = trace.launches
    names = {name: number for number, name in enumerate(dict.fromkeys(shape.full_name for shape in trace.shapes))}
    of_shape = np.array([names[shape.full_name] for shape in trace.shapes], np.int64)
    kernel, kernels = rank_groups(launches.process, of_shape[launches.shape])
    first_ns = np.full(kernels, np.iinfo(np.int64).max)
    np.minimum.at(first_ns, kernel, launches.start_ns)
    flags: Flags = launches.start_ns[launch] == first_ns[kernel[launch]]
    return flags


@dataclass(frozen=True, slots=True)
class Waits:
    """A waiting call in each gap, shape (gaps,) each.

    Attributes:
        began_ns: when the call began, or the gap if that was later.
        returned_ns: when it returned, not before it began; the gap's start where there was no such call.
        is_copy: whether it copied.
        length_ns: how long the whole call lasted, 0 where there was none.
    """

    began_ns: Ints
    returned_ns: Ints
    is_copy: Flags
    length_ns: Ints

    def replaced(self, other: Waits, where: Flags) -> Waits:
        """These, with those of the other in some of the gaps.

        Args:
            other: of the same gaps.
            where: shape (gaps,).
        """
        return Waits(
            np.where(where, other.began_ns, self.began_ns),
            np.where(where, other.returned_ns, self.returned_ns),
            np.where(where, other.is_copy, self.is_copy),
            np.where(where, other.length_ns, self.length_ns),
        )


def find_waits(
    trace: Trace, is_wait: Flags, threads: HostThreads, gaps: Gaps, thread: Ints, until: Sequence[Ints]
) -> list[Waits]:
    """For each time in a gap the last waiting call of a thread that began before, if it lasted into the gap.

    Args:
        trace: the trace.
        is_wait: shape (calls,), in which calls the host waits.
        threads: of the trace.
        gaps: the gaps.
        thread: shape (gaps,), the thread that may have waited.
        until: times, shape (gaps,) each.
    """
    calls = trace.calls
    rows = np.flatnonzero(is_wait)
    if not len(rows) or not len(gaps.line):
        zeros = np.zeros(len(gaps.line), np.int64)
        none = Waits(gaps.start_ns, gaps.start_ns, zeros > 0, zeros)
        return [none for _ in until]
    copies = flag_calls(trace, is_copy_call)
    axis = Axis.over(int(calls.start_ns.min()), int(calls.end_ns.max()), threads.count)
    key = axis.place(threads.of_call[rows], calls.start_ns[rows])
    order = np.argsort(key, kind="stable")
    found = []
    for time_ns in until:
        at = np.searchsorted(key[order], axis.place(thread, time_ns)) - 1
        row = rows[order[np.maximum(at, 0)]]
        fits = (at >= 0) & (threads.of_call[row] == thread) & (calls.end_ns[row] > gaps.start_ns)
        returned_ns = np.where(fits, np.minimum(calls.end_ns[row], gaps.end_ns), gaps.start_ns)
        began_ns = np.where(fits, np.clip(calls.start_ns[row], gaps.start_ns, returned_ns), gaps.start_ns)
        length_ns = np.where(fits, calls.end_ns[row] - calls.start_ns[row], 0)
        found.append(Waits(began_ns, returned_ns, fits & copies[row], length_ns))
    return found


def find_threads_before(
    trace: Trace, details: LaunchDetails, threads: HostThreads, gaps: Gaps, previous: Ints
) -> Ints:
    """The thread that launched what ran before each gap, if it is of the same process; else the gap's own.

    Autograd goes on where the main thread has waited: the launches before and after the gap are of two threads.

    Args:
        trace: the trace.
        details: of its launches.
        threads: of the trace.
        gaps: the gaps.
        previous: shape (gaps,), the launch before each, NO_LAUNCH for none.
    """
    call = details.call[previous]
    process = np.zeros(threads.count, np.int64)
    process[threads.of_call] = trace.calls.process
    thread = threads.of_call[call]
    is_known = (previous != NO_LAUNCH) & (call != NO_CALL) & (process[thread] == process[gaps.thread])
    return np.where(is_known, thread, gaps.thread)
