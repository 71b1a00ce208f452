"""Kernels that were launched and are not in the recording. Pure.

A killed program and a profiler without memory leave calls without their kernels. What is left looks like a faster
program, and the hole like idle time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from pytest_nsight.model.api_calls import (
    flag_calls,
    flag_captured,
    function_name,
    launches_kernel,
    launches_one_kernel,
)
from pytest_nsight.model.sorted_keys import rank_groups
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.model.units import count
from pytest_nsight.trace.attribution import NO_CALL, attribute
from pytest_nsight.trace.descendants import find_workers_of_events
from pytest_nsight.trace.launch_table import LaunchDetails

_KINDS = ("kernel", "graph")
_MOST_NAMES = 3


def note_lost_kernels(trace: Trace, details: LaunchDetails) -> tuple[str, ...]:
    """A sentence on launching calls without a kernel, none where each has one.

    Whoever reads a recording says what else is missing from it: all kernels, or those of graphs.

    Args:
        trace: any trace.
        details: of its launches.
    """
    lacking = flag_without_kernel(trace, details, launches_one_kernel)
    if not lacking.any():
        return ()
    lost = int(lacking.sum()) - _count_without_call(trace, details)
    numbers = np.unique(trace.calls.name[lacking])[:_MOST_NAMES].tolist()
    names = ", ".join(dict.fromkeys(function_name(trace.strings[number]) for number in numbers))
    launched = count(int(flag_calls(trace, launches_one_kernel).sum()), "launch", "launches")
    note = (
        f"{lost:,} of {launched} ({names}) left no kernel in the recording: they failed, or their records were "
        "lost, and kernel times are too small; record again, and let the program wait for the device before it ends"
    )
    return (note,)


def flag_without_kernel(
    trace: Trace, details: LaunchDetails, is_launch: Callable[[str], bool] = launches_kernel
) -> Flags:
    """Which launching calls have no kernel in the recording, shape (calls,).

    A call that failed or that a graph captured launches nothing, and a call of the driver may lie within one of the
    runtime: one of them has the kernel. Kernels without a call may be those of calls without a kernel: where there
    are as many of them, no call is flagged. Neither is one where no kernel was recorded at all.

    Args:
        trace: any trace.
        details: of its launches.
        is_launch: whether a call of this name launches; kernels and graphs of them unless given.
    """
    lacking = _flag_lacking(trace, details, is_launch)
    return lacking if int(lacking.sum()) > _count_without_call(trace, details) else np.zeros_like(lacking)


def count_by_range(trace: Trace, details: LaunchDetails, rows: Ints, parents: Mapping[int, int]) -> Ints:
    """Launches of single kernels that left none in the recording, by range, shape (ranges,).

    Kernels without a call that ran in a range may be those of its calls without a kernel.

    Args:
        trace: any trace.
        details: of its launches.
        rows: shape (ranges,), rows of ``trace.ranges``.
        parents: process id -> process id of the worker in whose ranges its launches count.
    """
    calls, lost = trace.calls, np.flatnonzero(_flag_lacking(trace, details, launches_one_kernel))
    process = find_workers_of_events(calls.process[lost], parents)
    lacking = attribute(trace, rows, process, calls.thread[lost], calls.start_ns[lost]).counts
    if not lacking.any():
        return lacking
    unlinked = np.flatnonzero(details.by_time & _is_kernel(trace))
    process = find_workers_of_events(trace.launches.process[unlinked], parents)
    found = attribute(trace, rows, process, *details.origin(trace, unlinked)).counts
    lost_of: Ints = np.maximum(lacking - found, 0)
    return lost_of


def _flag_lacking(trace: Trace, details: LaunchDetails, is_launch: Callable[[str], bool]) -> Flags:
    """Which launching calls lead to no kernel, shape (calls,); none where no kernel was recorded at all."""
    none = np.zeros(len(trace.calls), np.bool_)
    if not any(shape.kind in _KINDS for shape in trace.shapes):
        return none
    is_launching: Flags = flag_calls(trace, is_launch) & (trace.calls.correlation != 0)
    has_work = none.copy()
    has_work[details.call[details.call != NO_CALL]] = True
    lacking: Flags = is_launching & ~has_work & ~flag_captured(trace.calls, trace.strings)
    lacking &= ~_flag_near(trace, lacking, is_launching & has_work)
    return lacking


def _is_kernel(trace: Trace) -> Flags:
    """Whether each launch is of a kernel or of a graph of them, shape (launches,)."""
    flags: Flags = np.array([shape.kind in _KINDS for shape in trace.shapes], np.bool_)[trace.launches.shape]
    return flags


def _count_without_call(trace: Trace, details: LaunchDetails) -> int:
    return int((_is_kernel(trace) & (details.call == NO_CALL)).sum())


def _flag_near(trace: Trace, rows: Flags, others: Flags) -> Flags:
    """Which calls of `rows` overlap one of `others` on their thread, shape (calls,) each."""
    calls = trace.calls
    found = np.zeros(len(calls), np.bool_)
    if not rows.any() or not others.any():
        return found
    thread, _ = rank_groups(calls.process, calls.thread)
    for number in np.unique(thread[rows]).tolist():
        own, near = (np.flatnonzero(flags & (thread == number)) for flags in (rows, others))
        near = near[np.argsort(calls.start_ns[near], kind="stable")]
        if not len(near):
            continue
        before = near[np.maximum(np.searchsorted(calls.start_ns[near], calls.start_ns[own], side="right") - 1, 0)]
        after = near[np.minimum(np.searchsorted(calls.start_ns[near], calls.start_ns[own]), len(near) - 1)]
        is_inside = (calls.start_ns[before] <= calls.start_ns[own]) & (calls.end_ns[own] <= calls.end_ns[before])
        is_around = (calls.start_ns[own] <= calls.start_ns[after]) & (calls.end_ns[after] <= calls.end_ns[own])
        found[own] = is_inside | is_around
    return found
