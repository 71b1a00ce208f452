"""What each device did at every instant: run a kernel, only communicate, copy or set, or idle and why. Pure.

The states of a device partition the wall time, so their lengths add up to it exactly.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_nsight.analysis.explained_gaps import explain_gaps
from pytest_nsight.analysis.idle_causes import IdleCause
from pytest_nsight.analysis.intervals import Axis, TimeSet
from pytest_nsight.analysis.unrecorded_work import find_unrecorded
from pytest_nsight.model.sorted_keys import rank_groups, rank_values
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.model.trace_devices import TraceDevice
from pytest_nsight.trace.descendants import UNKNOWN_BOARD, describe_board, identify_boards
from pytest_nsight.trace.launch_table import LaunchDetails

_UNNAMED = 1 << 20
"""Numbers of devices that the recording does not identify begin here."""


class DeviceWork(enum.Enum):
    """What a device that is not idle does."""

    KERNEL = "kernel"
    """At least one kernel that computes runs, whatever else does."""
    COMMUNICATION = "communication"
    """Kernels that communicate run, and no other."""
    COPY = "copy"
    """A copy runs, and no kernel, not even one that is not chosen."""
    SET = "set"
    """Memory is set, and neither a kernel nor a copy runs."""
    OTHER = "other"
    """Only launches run that are not chosen: queued before the chosen ones, or on other streams."""


TimeState = DeviceWork | IdleCause


@dataclass(frozen=True, slots=True)
class OwnWork:
    """When some of the launches run.

    Attributes:
        kernels: when at least one kernel of theirs computes.
        communication: when at least one kernel of theirs communicates.
        copies: when at least one copy runs.
        sets: when at least one set of memory does.
    """

    kernels: TimeSet
    communication: TimeSet
    copies: TimeSet
    sets: TimeSet


@dataclass(frozen=True, slots=True)
class Timeline:
    """The states of all devices.

    Attributes:
        axis: one line for each device.
        devices: the board of each line; one that the recording does not identify has no uuid. Its process is the
            one that used it, None for several; its ordinal is the largest of those under which they did.
        device: shape (launches,), line of each launch.
        communicates: shape (launches,), whether each launch is a kernel that communicates.
        sets: shape (launches,), whether each launch sets memory.
        kernels: when at least one kernel runs.
        copies: when at least one copy or set runs.
        busy: when either does.
        states: state -> when the device is in it. No two states overlap, and together they last from the first
            start to the last end of all launches.
    """

    axis: Axis
    devices: tuple[TraceDevice, ...]
    device: Ints
    communicates: Flags
    sets: Flags
    kernels: TimeSet
    copies: TimeSet
    busy: TimeSet
    states: Mapping[TimeState, TimeSet]

    def measure(self, window: TimeSet, own: OwnWork | None = None) -> dict[TimeState, int]:
        """How long the devices are in each state during a window; the rest of the window counts as unknown.

        Args:
            window: on the timeline's axis.
            own: the launches that the window is about; None for all.
        """
        found: dict[TimeState, int] = {state: window.common(times) for state, times in self.states.items()}
        found[IdleCause.UNKNOWN] += window.total_ns - sum(found.values())
        if own is not None:
            left_ns = sum(found[state] for state in DeviceWork if state is not DeviceWork.OTHER)
            found[DeviceWork.KERNEL] = window.common(own.kernels)
            left_ns -= found[DeviceWork.KERNEL]
            for state, times in (
                (DeviceWork.COMMUNICATION, own.communication),
                (DeviceWork.COPY, own.copies),
                (DeviceWork.SET, own.sets),
            ):
                # The clocks of host and device differ a little: a launch may seem to start before its range.
                found[state] = min(times.common(self.states[state]), left_ns)
                left_ns -= found[state]
            found[DeviceWork.OTHER] = left_ns
        return found

    def find_own(self, trace: Trace, details: LaunchDetails, rows: Ints) -> OwnWork | None:
        """When some of the launches run; None where they are all.

        Args:
            trace: the trace.
            details: of its launches.
            rows: shape (chosen,), rows of ``trace.launches``.
        """
        if len(rows) == len(trace.launches):
            return None
        start_ns, end_ns = trace.launches.start_ns, trace.launches.end_ns
        is_compute, communicates, sets = details.is_compute[rows], self.communicates[rows], self.sets[rows]
        kinds = (rows[is_compute & ~communicates], rows[communicates], rows[~is_compute & ~sets], rows[sets])
        return OwnWork(
            *(TimeSet.union(self.axis, self.device[part], start_ns[part], end_ns[part]) for part in kinds)
        )

    def find_moves(self, trace: Trace, details: LaunchDetails) -> tuple[TimeSet, TimeSet]:
        """When at least one copy runs, and when at least one kernel that communicates does, whatever else runs.

        Args:
            trace: the trace.
            details: of its launches.
        """
        start_ns, end_ns = trace.launches.start_ns, trace.launches.end_ns
        kinds = np.flatnonzero(~details.is_compute & ~self.sets), np.flatnonzero(self.communicates)
        copies, communication = (
            TimeSet.union(self.axis, self.device[rows], start_ns[rows], end_ns[rows]) for rows in kinds
        )
        return copies, communication

    def whole(self) -> TimeSet:
        """All devices, from the first start to the last end of all launches."""
        lines = np.arange(self.axis.lines)
        start = lines * self.axis.span_ns
        return TimeSet(self.axis, start, start + self.axis.span_ns - 2)


def build_timeline(trace: Trace, details: LaunchDetails, waits: Flags, communicates: Flags) -> Timeline:
    """The states of all devices of a trace.

    Args:
        trace: any trace. Operators of a CPU count as the kernels of one device.
        details: of its launches.
        waits: shape (calls,), in which calls the host waits.
        communicates: shape (launches,), whether each launch is a kernel that communicates.

    Raises:
        TraceError: the times are too far apart to be added up.
    """
    launches = trace.launches
    device, devices = number_devices(trace, launches.process, launches.device.astype(np.int64))
    low_ns, high_ns = (int(launches.start_ns.min()), int(launches.end_ns.max())) if len(launches) else (0, 0)
    axis = Axis.over(low_ns, max(low_ns, high_ns), len(devices))
    start_ns, end_ns, is_compute = launches.start_ns, launches.end_ns, details.is_compute

    def unite(chosen: Flags) -> TimeSet:
        return TimeSet.union(axis, device[chosen], start_ns[chosen], end_ns[chosen])

    sets = np.array([shape.kind == "memset" for shape in trace.shapes] or [False], np.bool_)[launches.shape]
    kernels, copies = unite(is_compute), unite(~is_compute)
    moves = unite(~is_compute & ~sets) if sets.any() else copies
    computing = unite(is_compute & ~communicates) if communicates.any() else kernels
    busy = TimeSet.union(axis, device, start_ns, end_ns) if len(copies.start) else kernels
    timeline = Timeline(axis, devices, device, communicates, sets, kernels, copies, busy, {})
    idle = busy.complement(timeline.whole())
    causes = explain_gaps(trace, details, waits, idle, device)
    unrecorded = find_unrecorded(trace, details, waits, idle, device)
    causes = {cause: times.minus(unrecorded) for cause, times in causes.items()}
    causes[IdleCause.UNRECORDED] = unrecorded
    states: dict[TimeState, TimeSet] = {
        DeviceWork.KERNEL: computing,
        DeviceWork.COMMUNICATION: kernels.minus(computing),
        DeviceWork.COPY: moves.minus(kernels),
        DeviceWork.SET: copies.minus(moves).minus(kernels),
    }
    states |= dict(causes.items())
    return replace(timeline, states=states)


def number_devices(trace: Trace, process: Ints, ordinal: Ints) -> tuple[Ints, tuple[TraceDevice, ...]]:
    """The board that each row is about, as an index into the boards that any of them is about.

    Args:
        trace: the trace.
        process: shape (rows,).
        ordinal: shape (rows,), CUDA's number of the device in that process.
    """
    board = identify_boards(trace, process, ordinal)
    place, places = rank_groups(process, ordinal)
    key = np.where(board == UNKNOWN_BOARD, _UNNAMED + place, board)
    values, lines = rank_values(key)
    first = np.zeros(places, np.int64)
    first[place[::-1]] = np.arange(len(place))[::-1]
    used: dict[int, list[tuple[int, int]]] = {}
    for row in first.tolist():
        used.setdefault(int(lines[row]), []).append((int(process[row]), int(ordinal[row])))
    return lines, tuple(_describe_line(trace, value, used[line]) for line, value in enumerate(values.tolist()))


def _describe_line(trace: Trace, number: int, places: Sequence[tuple[int, int]]) -> TraceDevice:
    """The board of a line.

    Args:
        trace: the trace.
        number: index into its devices; what the recording does not identify has a larger one.
        places: process and ordinal under which something ran on it.
    """
    if len(places) == 1:
        ((process, ordinal),) = places
        board = describe_board(trace, process, ordinal)
        # Another process may have been the first to list the board, under a number of its own.
        is_numbered_alike = number < _UNNAMED and trace.devices[number].process is None
        return board if is_numbered_alike else replace(board, process=process, ordinal=ordinal)
    # CUDA_VISIBLE_DEVICES hides boards, which makes numbers smaller: the largest is of who sees the most.
    return replace(trace.devices[number], process=None, ordinal=max(ordinal for _, ordinal in places))
