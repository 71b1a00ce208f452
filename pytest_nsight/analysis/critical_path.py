"""The critical path of one step: the chain of host and device work that its length consists of. Pure.

The walk begins at the end and goes back. Work of the device waited either for other work of the device, or for the
call that launched it. In the second case the host is on the path, back to the last call that waited; before it, the
device work for which that call waited is. The walk covers the whole step, so the parts add up to its length.

The host may run ahead: the device then works on earlier steps when a step begins, and what the step launches queues
behind them. So the walk also follows work in the step's streams that was launched elsewhere.
"""

from __future__ import annotations

import bisect
import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.chosen_work import ChosenWork
from pytest_nsight.analysis.selection import find_step, flag_own_calls
from pytest_nsight.model.sorted_keys import rank_groups
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.trace.attribution import NO_CALL
from pytest_nsight.trace.launch_table import LaunchDetails


class PathPart(enum.Enum):
    """What a part of the critical path is."""

    DEVICE = "device"
    OTHER = "device, launched elsewhere"
    DELAY = "from call to start"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class PathTime:
    """One kind of work on the critical path.

    Attributes:
        part: where the time passes.
        name: of the kernel or copy of the step; "" for all else.
        count: number of stretches.
        total_ns: their length.
    """

    part: PathPart
    name: str
    count: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class StepPath:
    """The critical path of one step.

    Attributes:
        name: of the range that is the step.
        wall_ns: length of the step.
        parts: by kind, the longest first; they add up to the length.
    """

    name: str
    wall_ns: int
    parts: tuple[PathTime, ...]


@dataclass(frozen=True, slots=True)
class _StepLaunches:
    """What the walk needs of a step's launches, and of all others in its streams, in order of their ends."""

    start_ns: list[int]
    end_ns: list[int]
    called_ns: list[int]
    name: list[str]
    is_own: list[bool]


def find_step_path(chosen: ChosenWork) -> StepPath | None:
    """The critical path of the median range of the label that looks like a step; None without one."""
    trace, details = chosen.trace, chosen.details
    step = find_step(trace, chosen.table, is_chosen=chosen.is_part)
    if step is None:
        return None
    # What another process or an unconcerned thread waits for holds up nothing of the step.
    own = chosen.waits & flag_own_calls(trace, details, step)
    parts = find_critical_path(trace, details, own, step.launches, (step.start_ns, step.end_ns))
    return StepPath(step.label, step.end_ns - step.start_ns, parts)


def find_critical_path(
    trace: Trace, details: LaunchDetails, waits: Flags, rows: Ints, window_ns: tuple[int, int]
) -> tuple[PathTime, ...]:
    """The parts of the critical path by kind, the longest first; their lengths add up to the window.

    Args:
        trace: the trace.
        details: of its launches.
        waits: shape (calls,), in which calls the threads of the step wait.
        rows: shape (launches,), rows of the launches of the step.
        window_ns: start and end of the step.
    """
    low_ns, high_ns = window_ns
    step = _list(trace, details, rows, window_ns)
    returns_ns = _find_returns(trace, waits, low_ns, high_ns)
    found: dict[tuple[PathPart, str], tuple[int, int]] = {}

    def book(part: PathPart, name: str, start_ns: int, end_ns: int) -> None:
        if end_ns > start_ns:
            count, total_ns = found.get((part, name), (0, 0))
            found[part, name] = (count + 1, total_ns + end_ns - start_ns)

    at_ns = high_ns
    position = _last_until(step.end_ns, at_ns)
    while position >= 0 and at_ns > low_ns:
        end_ns, start_ns = step.end_ns[position], max(step.start_ns[position], low_ns)
        book(PathPart.HOST, "", max(end_ns, low_ns), at_ns)
        if step.is_own[position]:
            book(PathPart.DEVICE, step.name[position], start_ns, end_ns)
        else:
            book(PathPart.OTHER, "", start_ns, end_ns)
        called_ns = max(min(step.called_ns[position], start_ns), low_ns)
        earlier = min(_last_until(step.end_ns, start_ns), position - 1)
        at_ns = max(step.end_ns[earlier], low_ns) if earlier >= 0 else low_ns
        if at_ns >= called_ns and earlier >= 0:
            book(PathPart.DELAY, "", at_ns, start_ns)
            position = earlier
            continue
        book(PathPart.DELAY, "", called_ns, start_ns)
        returned = _last_until(returns_ns, called_ns)
        at_ns = max(returns_ns[returned], low_ns) if returned >= 0 else low_ns
        book(PathPart.HOST, "", at_ns, called_ns)
        position = min(_last_until(step.end_ns, at_ns), position - 1)
    book(PathPart.HOST, "", low_ns, at_ns)
    parts = (PathTime(part, name, count, total_ns) for (part, name), (count, total_ns) in found.items())
    return tuple(sorted(parts, key=lambda one: (-one.total_ns, one.part.value, one.name)))


def _list(trace: Trace, details: LaunchDetails, rows: Ints, window_ns: tuple[int, int]) -> _StepLaunches:
    launches = trace.launches
    low_ns, high_ns = window_ns
    is_own = np.zeros(len(launches), np.bool_)
    is_own[rows] = True
    near = np.flatnonzero(is_own | ((launches.end_ns > low_ns) & (launches.end_ns <= high_ns)))
    device, _ = rank_groups(launches.process[near], launches.device[near].astype(np.int64))
    stream, streams = rank_groups(device, launches.stream[near])
    is_used = np.zeros(streams, np.bool_)
    is_used[stream[is_own[near]]] = True
    order = near[is_used[stream]]
    order = order[np.argsort(launches.end_ns[order], kind="stable")]
    call = details.call[order]
    called_ns = launches.start_ns[order].copy()
    known = call != NO_CALL
    called_ns[known] = trace.calls.start_ns[call[known]]
    return _StepLaunches(
        start_ns=launches.start_ns[order].tolist(),
        end_ns=launches.end_ns[order].tolist(),
        called_ns=called_ns.tolist(),
        name=[trace.shapes[number].name for number in launches.shape[order].tolist()],
        is_own=is_own[order].tolist(),
    )


def _find_returns(trace: Trace, waits: Flags, low_ns: int, high_ns: int) -> list[int]:
    """When the calls of the window that waited returned, in order."""
    calls = trace.calls
    rows = waits & (calls.end_ns < high_ns) & (calls.end_ns > low_ns)
    ends: list[int] = np.sort(calls.end_ns[rows]).tolist()
    return ends


def _last_until(times_ns: Sequence[int], limit_ns: int) -> int:
    """Position of the last time that is not after the limit; -1 if there is none."""
    return bisect.bisect_right(times_ns, limit_ns) - 1
