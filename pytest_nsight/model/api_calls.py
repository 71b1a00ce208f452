"""Calls of CUDA's and HIP's API: their names, and which of them launch kernels. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.trace import Calls, Flags, Trace


def launches_kernel(call: str) -> bool:
    """Whether a function of this name of CUDA's or HIP's API launches a kernel or a graph of them.

    Args:
        call: as a profiler spells it.
    """
    return "Launch" in call and "HostFunc" not in call


def launches_one_kernel(call: str) -> bool:
    """Whether a function of this name launches a kernel, and no graph of them.

    Args:
        call: as a profiler spells it.
    """
    return launches_kernel(call) and "Graph" not in call


def function_name(name: str) -> str:
    """The name of a function of CUDA's API without "_v3020", the version that nsys and CUPTI append."""
    head, separator, version = name.rpartition("_v")
    return head if separator and version.isdecimal() else name


def flag_calls(trace: Trace, is_wanted: Callable[[str], bool]) -> Flags:
    """Which calls have a name that fits, shape (calls,). A trace may have a million texts, few of them of calls.

    Args:
        trace: the trace.
        is_wanted: whether a name fits.
    """
    numbers = distinct(trace.calls.name)
    if not len(numbers):
        return np.zeros(0, np.bool_)
    fits = np.zeros(int(numbers[-1]) + 1, np.bool_)
    fits[numbers] = [is_wanted(trace.strings[number]) for number in numbers.tolist()]
    return fits[trace.calls.name]


def flag_captured(calls: Calls, strings: Sequence[str]) -> Flags:
    """Whether each call begins while its process captures a stream, on whichever thread, shape (calls,).

    What is captured into a graph launches nothing.

    Args:
        calls: of any processes, with those that begin and end captures.
        strings: names of the calls.
    """
    begins = [number for number, text in enumerate(strings) if "BeginCapture" in text]
    ends = [number for number, text in enumerate(strings) if "EndCapture" in text]
    captured = np.zeros(len(calls), np.bool_)
    marks = np.flatnonzero(np.isin(calls.name, [*begins, *ends]))
    marks = marks[np.argsort(calls.start_ns[marks], kind="stable")]
    for process in np.unique(calls.process[marks]).tolist():
        own = marks[calls.process[marks] == process]
        depths, depth = [0], 0
        for is_begin in np.isin(calls.name[own], begins).tolist():
            depth = max(0, depth + (1 if is_begin else -1))
            depths.append(depth)
        rows = np.flatnonzero(calls.process == process)
        at = np.searchsorted(calls.start_ns[own], calls.start_ns[rows], side="right")
        captured[rows] = np.array(depths)[at] > 0
    return captured
