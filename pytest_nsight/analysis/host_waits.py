"""Which CUDA calls wait on the host: for the device, or for a copy. Pure.

One rule for all tables: calls that synchronise and copies such as `cudaMemcpy` wait. `cudaMemcpyAsync` of pageable
memory waits as well, and only its times show it: it returns about when its copy ends, while one that does not wait
returns before most of the copy is done. Copies between pinned memory and devices never wait in such a call.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from pytest_nsight.analysis.intervals import Axis, TimeSet
from pytest_nsight.analysis.range_tree import RangeTable
from pytest_nsight.model.api_calls import flag_calls
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.trace.attribution import NO_CALL
from pytest_nsight.trace.launch_table import LaunchDetails

_MOST_PAIRS = 1_000_000
"""Of a range and a call in it, that are listed at once."""


def is_synchronisation(name: str) -> bool:
    """Whether a CUDA call of this name waits for the device."""
    return "Synchronize" in name


def is_copy_call(name: str) -> bool:
    """Whether a CUDA call of this name copies, and may wait for the copy."""
    return "Memcpy" in name


def flag_waits(trace: Trace, details: LaunchDetails) -> Flags:
    """In which calls the host waits, shape (calls,).

    An asynchronous copy waits if it returned when at least half of its copy was done: the last part of pageable
    memory may still be on its way then, and the clocks of host and device differ by microseconds.

    Args:
        trace: the trace.
        details: of its launches.
    """
    flags = flag_calls(trace, lambda name: is_synchronisation(name) or (is_copy_call(name) and "Async" not in name))
    is_asynchronous = flag_calls(trace, lambda name: is_copy_call(name) and "Async" in name)
    if not is_asynchronous.any() or not len(trace.launches):
        return flags
    may_wait = np.array([_may_wait(shape) for shape in trace.shapes], np.bool_)[trace.launches.shape]
    rows = np.flatnonzero(may_wait & (details.call != NO_CALL))
    call, start_ns = details.call[rows], trace.launches.start_ns[rows]
    is_late = trace.calls.end_ns[call] - start_ns >= (details.duration_ns[rows] + 1) // 2
    flags[call[is_late & is_asynchronous[call]]] = True
    return flags


def _may_wait(shape: Shape) -> bool:
    """Whether it is a copy that has a side in pageable memory, or in memory that the recording does not name."""
    memory = shape.full_name.removeprefix(shape.name).strip(" ()")
    return shape.kind == "memcpy" and (not memory or "pageable" in memory or "unknown" in memory)


def share_of_waits(trace: Trace, table: RangeTable, positions: Ints) -> float:
    """Share of the time of some ranges during which any thread of theirs waits for the device or for a copy.

    Args:
        trace: the trace.
        table: the ranges.
        positions: shape (chosen,), positions in ``table.rows``.
    """
    rows, waiting = table.rows[positions], table.costs.waiting
    start_ns = trace.ranges.start_ns[rows]
    length_ns = np.maximum(trace.ranges.end_ns[rows] - start_ns, 0)
    total_ns = int(length_ns.sum())
    chosen = replace(waiting, low=waiting.low[positions], high=waiting.high[positions])
    before = np.cumsum(chosen.counts) - chosen.counts
    edges = np.flatnonzero(np.diff(before // _MOST_PAIRS, prepend=-1)).tolist()
    waits_ns = 0
    for first, last in pairwise([*edges, len(positions)]):
        within, event = chosen.pairs(first, last)
        call, own = table.costs.calling[event], slice(first, last)
        # One range behind the other, so that waits of several threads in one of them count once.
        offset = (np.cumsum(length_ns[own]) - length_ns[own])[within]
        ends = (
            offset + np.clip(times[call] - start_ns[own][within], 0, length_ns[own][within])
            for times in (trace.calls.start_ns, trace.calls.end_ns)
        )
        line = np.zeros(len(call), np.int64)
        waits_ns += TimeSet.union(Axis.over(0, int(length_ns[own].sum()), 1), line, *ends).total_ns
    return waits_ns / total_ns if total_ns else 0.0
