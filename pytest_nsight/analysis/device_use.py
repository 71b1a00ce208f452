"""The headline of each device: how long it was busy, with what, and how long the host waited for it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.host_calls import find_waiting
from pytest_nsight.analysis.intervals import TimeSet
from pytest_nsight.analysis.timeline import Timeline
from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.trace import UNKNOWN_PROCESS, Flags, Trace
from pytest_nsight.model.trace_devices import TraceDevice


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What one device did during the window.

    Attributes:
        device: the board.
        processes: those that launched something on it, sorted; empty where the recording does not say.
        wall_ns: length of the window. Busy and idle time add up to it.
        kernel_ns: time during which at least one kernel runs.
        copy_ns: time during which at least one copy or set runs.
        overlap_ns: part of both, so that kernel and copy time less this is the busy time.
        idle_ns: time during which nothing runs.
        sync_ns: host time in calls that wait, for the device or for a copy, of the processes that use the device;
            of chosen ranges, within the window.
    """

    device: TraceDevice
    processes: tuple[int, ...]
    wall_ns: int
    kernel_ns: int
    copy_ns: int
    overlap_ns: int
    idle_ns: int
    sync_ns: int

    @property
    def busy_ns(self) -> int:
        """Time during which anything runs."""
        return self.wall_ns - self.idle_ns

    @property
    def utilisation(self) -> float:
        """Busy time over wall time; 0 for an empty window."""
        return self.busy_ns / self.wall_ns if self.wall_ns else 0.0


def measure_devices(trace: Trace, waits: Flags, timeline: Timeline, window: TimeSet) -> tuple[DeviceUse, ...]:
    """The headline of each device, in order of its number.

    Args:
        trace: the trace.
        waits: shape (calls,), in which calls the host waits.
        timeline: of its devices.
        window: the times that count, on the axis of the timeline.
    """
    wall_ns = window.by_line().tolist()
    kernel_ns = _overlap(window, timeline.kernels)
    copy_ns = _overlap(window, timeline.copies)
    busy_ns = _overlap(window, TimeSet.merged(timeline.kernels, timeline.copies))
    waiting = find_waiting(trace, waits)
    processes = distinct(trace.calls.process).tolist()
    is_whole = window.total_ns == timeline.whole().total_ns
    uses = []
    for line, device in enumerate(timeline.devices):
        owners = set(distinct(trace.launches.process[timeline.device == line]).tolist())
        own = [number for number, process in enumerate(processes) if process in owners]
        uses.append(
            DeviceUse(
                device=device,
                processes=tuple(sorted(owners - {UNKNOWN_PROCESS})),
                wall_ns=wall_ns[line],
                kernel_ns=kernel_ns[line],
                copy_ns=copy_ns[line],
                overlap_ns=kernel_ns[line] + copy_ns[line] - busy_ns[line],
                idle_ns=wall_ns[line] - busy_ns[line],
                sync_ns=_sum_waiting(waiting, own, None if is_whole else (window, line)),
            )
        )
    return tuple(sorted(uses, key=lambda use: (use.device.ordinal, use.device.process or 0)))


def _sum_waiting(waiting: TimeSet, processes: Sequence[int], within: tuple[TimeSet, int] | None) -> int:
    """Waiting time of processes; within the intervals of one line of a window, if one is given."""
    if within is None:
        return int(waiting.by_line()[processes].sum())
    window, line = within
    rows = np.flatnonzero(window.line == line)
    start_ns = window.start_ns[rows]
    end_ns = start_ns + window.length_ns[rows]
    place = waiting.axis.place
    return sum(
        int(waiting.covered(place(np.full(len(rows), one), start_ns), place(np.full(len(rows), one), end_ns)).sum())
        for one in processes
    )


def _overlap(window: TimeSet, times: TimeSet) -> list[int]:
    """How much of the window a set covers, by line."""
    totals = np.zeros(window.axis.lines, np.int64)
    np.add.at(totals, window.line, times.covered(window.start, window.end))
    found: list[int] = totals.tolist()
    return found
