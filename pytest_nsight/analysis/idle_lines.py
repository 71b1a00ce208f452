"""In which line of Python the host was while devices were idle. Pure.

Of each gap the thread counts that makes the next launch; if it runs no Python, or only where a library calls some,
as a thread of autograd, the sampled thread of its process that calls CUDA most often and runs Python all the time.
Each sample stands for the time up to the middle between it and its neighbours, and for at most a period of sampling
on each side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_nsight.analysis.bottleneck import Bottleneck
from pytest_nsight.analysis.gap_launches import find_ending_calls
from pytest_nsight.analysis.intervals import Axis, TimeSet
from pytest_nsight.analysis.limit_classes import BottleneckClass
from pytest_nsight.analysis.python_lines import StackLines, flag_python_threads, sampling_period
from pytest_nsight.analysis.timeline import Timeline
from pytest_nsight.model.sorted_keys import rank_groups
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.trace.attribution import NO_CALL
from pytest_nsight.trace.launch_table import LaunchDetails

NO_SAMPLE = ""
"""Stands for the line of idle time without a sample."""

_MUCH, _MOSTLY = 0.25, 0.5
"""Share of the idle time from which on the bottleneck names a line, and of the line's, above which what it runs."""


@dataclass(frozen=True, slots=True)
class IdleLine:
    """Idle time during which the host is in one line of Python, or in what it calls.

    Attributes:
        line: such as "train.py:31 main", NO_SAMPLE where there is none.
        total_ns: over all devices.
        share: of all idle time.
        inside: the line in which it is most of that time, which may be the same one.
        inside_ns: how long it is in there.
    """

    line: str
    total_ns: int
    share: float
    inside: str
    inside_ns: int


@dataclass(frozen=True, slots=True)
class _Times:
    """Idle times and the thread that counts for each, shape (times,) each."""

    start_ns: Ints
    end_ns: Ints
    thread: Ints


def find_idle_lines(
    trace: Trace, details: LaunchDetails, timeline: Timeline, window: TimeSet
) -> tuple[IdleLine, ...]:
    """The lines with the most idle time first; none where Python was not sampled or no device was idle.

    Args:
        trace: the trace.
        details: of its launches.
        timeline: of its devices.
        window: what the picture is about.
    """
    stacks = trace.python
    samples = np.flatnonzero(stacks.is_sample)
    idle = timeline.busy.complement(timeline.whole()).minus(timeline.whole().minus(window))
    period_ns = sampling_period(stacks)
    if not period_ns or not len(idle.start):
        return ()
    process = np.concatenate([stacks.process, trace.calls.process])
    thread, threads = rank_groups(process, np.concatenate([stacks.thread, trace.calls.thread]))
    of_stack, of_call = np.split(thread, [len(stacks)])
    of_sample, of_thread = of_stack[samples], np.zeros(threads, np.int64)
    of_thread[thread] = process
    runs_python = flag_python_threads(stacks, of_stack, of_thread)
    stand_in = _find_stand_ins(of_sample, of_call, of_thread, runs_python)
    times = _list_times(trace, details, timeline, idle, stand_in[of_call])
    low_ns, high_ns = timeline.axis.low_ns, timeline.axis.low_ns + timeline.axis.span_ns
    axis = Axis.over(low_ns, high_ns, threads)
    order = np.lexsort((stacks.at_ns[samples], of_sample))
    start_ns, end_ns = _spread(stacks.at_ns[samples][order], of_sample[order], period_ns)
    edges = axis.place(of_sample[order], start_ns), axis.place(of_sample[order], end_ns)
    bounds = axis.place(times.thread, times.start_ns), axis.place(times.thread, times.end_ns)
    held_ns = _sum_before(edges[1], *bounds) - _sum_before(edges[0], *bounds)
    return _sum_lines(StackLines.of(stacks), samples[order], held_ns, idle.total_ns)


def name_line(bottleneck: Bottleneck | None, lines: Sequence[IdleLine]) -> Bottleneck | None:
    """A bottleneck that names the line of Python in which most of the idle time passes, if it is the host's.

    Args:
        bottleneck: of what the lines are about.
        lines: the most idle time first.
    """
    largest = next((one for one in lines if one.line != NO_SAMPLE), None)
    if (
        bottleneck is None
        or largest is None
        or bottleneck.limit is not BottleneckClass.HOST
        or largest.share < _MUCH
    ):
        return bottleneck
    is_inside = largest.inside != largest.line and largest.inside_ns > _MOSTLY * largest.total_ns
    inside = f", mostly in {largest.inside}" if is_inside else ""
    part = f"Python is at {largest.line} for {100 * largest.share:.0f} % of the idle time{inside}"
    return replace(bottleneck, evidence=f"{bottleneck.evidence}; {part}")


def _find_stand_ins(of_sample: Ints, of_call: Ints, process: Ints, runs_python: Flags) -> Ints:
    """For each thread the one whose samples count, itself where it runs Python and has some; shape (threads,).

    Args:
        of_sample: shape (samples,), thread of each.
        of_call: shape (calls,), thread of each.
        process: shape (threads,), process of each.
        runs_python: shape (threads,), which run Python all the time.
    """
    threads = len(process)
    samples, calls = np.bincount(of_sample, minlength=threads), np.bincount(of_call, minlength=threads)
    is_sampled = samples > 0
    counts = is_sampled & runs_python
    counts |= is_sampled & ~np.isin(process, process[counts])
    best = np.lexsort((samples, calls, counts))
    # What comes later is better, and stays.
    leading = dict(zip(process[best].tolist(), best.tolist(), strict=True))
    return np.where(counts, np.arange(threads), [leading[number] for number in process.tolist()])


def _list_times(trace: Trace, details: LaunchDetails, timeline: Timeline, idle: TimeSet, thread: Ints) -> _Times:
    """The idle times that a launch with a call ends.

    Args:
        trace: the trace.
        details: of its launches.
        timeline: of its devices.
        idle: the idle times, which may be parts of gaps.
        thread: shape (calls,), the thread that counts for each call.
    """
    gaps = timeline.busy.complement(timeline.whole())
    call = find_ending_calls(trace, details, timeline.device, gaps, idle)
    known = np.flatnonzero(call != NO_CALL)
    start_ns = idle.start_ns[known]
    return _Times(start_ns, start_ns + idle.length_ns[known], thread[call[known]])


def _spread(at_ns: Ints, thread: Ints, period_ns: float) -> tuple[Ints, Ints]:
    """Begin and end of the time that each sample stands for, shape (samples,) each.

    Args:
        at_ns: shape (samples,), ascending in each thread.
        thread: shape (samples,), ascending.
        period_ns: of the sampling.
    """
    most_ns = round(period_ns)
    start_ns, end_ns = at_ns - most_ns, at_ns + most_ns
    middle_ns = at_ns[:-1] + np.diff(at_ns) // 2
    is_same = np.diff(thread) == 0
    start_ns[1:] = np.where(is_same, np.maximum(start_ns[1:], middle_ns), start_ns[1:])
    end_ns[:-1] = np.where(is_same, np.minimum(end_ns[:-1], middle_ns), end_ns[:-1])
    return start_ns, end_ns


def _sum_before(position: Ints, start: Ints, end: Ints) -> Ints:
    """How much of some intervals, which may overlap, lies before each position.

    Args:
        position: shape (positions,).
        start: shape (intervals,).
        end: shape (intervals,).
    """

    def sum_distances(edges: Ints) -> Ints:
        ordered = np.sort(edges)
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(ordered)])
        before = np.searchsorted(ordered, position)
        distances: Ints = before * position - running[before]
        return distances

    return sum_distances(start) - sum_distances(end)


def _sum_lines(lines: StackLines, samples: Ints, held_ns: Ints, whole_ns: int) -> tuple[IdleLine, ...]:
    """The rows.

    Args:
        lines: of all stacks.
        samples: shape (samples,), rows of the stacks.
        held_ns: shape (samples,), idle time that each stands for.
        whole_ns: all idle time.
    """
    line, inner = lines.line[samples], lines.inner[samples]
    pair, pairs = rank_groups(line, inner)
    sums, one = np.zeros(pairs, np.int64), np.zeros(pairs, np.int64)
    np.add.at(sums, pair, held_ns)
    one[pair] = np.arange(len(pair))
    totals: dict[str, int] = {}
    largest: dict[str, tuple[int, str]] = {}
    for outer, within, time_ns in zip(line[one].tolist(), inner[one].tolist(), sums.tolist(), strict=True):
        label = lines.labels[outer]
        totals[label] = totals.get(label, 0) + time_ns
        largest[label] = max(largest.get(label, (-1, "")), (time_ns, lines.labels[within]))
    found = [
        IdleLine(label, total_ns, total_ns / whole_ns, largest[label][1], largest[label][0])
        for label, total_ns in totals.items()
        if total_ns
    ]
    rest_ns = whole_ns - sum(one.total_ns for one in found)
    if not found:
        return ()
    if rest_ns > 0:
        found.append(IdleLine(NO_SAMPLE, rest_ns, rest_ns / whole_ns, "", rest_ns))
    return tuple(sorted(found, key=lambda one: (-one.total_ns, one.line)))
