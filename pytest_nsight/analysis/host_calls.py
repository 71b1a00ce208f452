"""The calls of the CUDA API on the host, by name; and the time in which the host waited for the device. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.intervals import Axis, TimeSet
from pytest_nsight.model.api_calls import function_name
from pytest_nsight.model.sorted_keys import rank_groups, rank_values
from pytest_nsight.model.trace import Flags, Trace


@dataclass(frozen=True, slots=True)
class CallTime:
    """The calls of one function.

    Attributes:
        name: of the function, without the version of its interface.
        calls: number of calls.
        total_ns: sum of their durations on the host.
        median_ns: median duration.
        longest_ns: longest duration.
        waits: whether the host waits in any of the calls, for the device or for a copy.
        waiting_calls: number of those in which it waits.
        waiting_ns: sum of their durations.
    """

    name: str
    calls: int
    total_ns: int
    median_ns: float
    longest_ns: int
    waits: bool
    waiting_calls: int
    waiting_ns: int


def tabulate_calls(trace: Trace, chosen: Flags, waits: Flags) -> tuple[CallTime, ...]:
    """CUDA calls by function, the longest in total first.

    Args:
        trace: the trace.
        chosen: shape (calls,), which calls count.
        waits: shape (calls,), in which the host waits.
    """
    calls = trace.calls
    used, codes = rank_values(calls.name)
    names = [function_name(trace.strings[number]) for number in used.tolist()]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    merged = np.array([numbers[name] for name in names], np.int64)
    rows = np.flatnonzero(chosen)
    key = merged[codes[rows]] if len(rows) else np.empty(0, np.int64)
    order = np.argsort(key, kind="stable")
    duration_ns = np.maximum(calls.end_ns[rows] - calls.start_ns[rows], 0)[order]
    waiting = waits[rows][order]
    edges = np.flatnonzero(np.diff(key[order])) + 1
    first = np.concatenate([[0], edges]).astype(np.int64) if len(rows) else edges
    texts = list(numbers)
    found = [
        CallTime(
            name=texts[int(number)],
            calls=len(times),
            total_ns=int(times.sum()),
            median_ns=float(np.median(times)),
            longest_ns=int(times.max()),
            waits=bool(is_wait.any()),
            waiting_calls=int(is_wait.sum()),
            waiting_ns=int(times[is_wait].sum()),
        )
        for number, times, is_wait in zip(
            key[order][first], np.split(duration_ns, edges), np.split(waiting, edges), strict=False
        )
    ]
    return tuple(sorted(found, key=lambda one: (-one.total_ns, one.name)))


def find_waiting(trace: Trace, waits: Flags) -> TimeSet:
    """When any thread of a process is inside a call that waits; one line for each process, by its id.

    Args:
        trace: the trace.
        waits: shape (calls,), in which calls the host waits.
    """
    calls = trace.calls
    rows = np.flatnonzero(waits)
    number, processes = rank_groups(calls.process, calls.process)
    low_ns, high_ns = (int(calls.start_ns.min()), int(calls.end_ns.max())) if len(calls) else (0, 0)
    axis = Axis.over(low_ns, max(low_ns, high_ns), processes)
    return TimeSet.union(axis, number[rows], calls.start_ns[rows], calls.end_ns[rows])
