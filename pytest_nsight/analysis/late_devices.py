"""How much of the communication is waiting for the device that begins last. Pure.

A kernel that communicates runs from when its own device is ready until all devices have been. On each device but
the last it also waits, and neither a faster link nor larger buckets make that shorter. Kernels that wait for one
another begin apart and end together; those of groups that are independent end as far apart as they begin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.timeline import Timeline
from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.model.trace_devices import TraceDevice
from pytest_nsight.model.units import count, duration
from pytest_nsight.trace.launch_table import LaunchDetails

_LEAST_OF_COMMUNICATION, _LEAST_OF_WALL = 0.25, 0.02
"""Shares of the kernels that communicate and of the wall time from which on the waiting is worth a sentence."""
_MOSTLY = 0.9
"""Of the kernels of one name that run at once on all devices; else they are not the parts of one exchange each."""
_LARGEST = 0.5
"""Share of the waiting from which on one device is named."""
_UUID_START = 12


@dataclass(frozen=True, slots=True)
class _Exchanges:
    """The kernels of one name, shape (devices, exchanges) each; the n-th of all devices are one exchange.

    Attributes:
        line: shape (devices,), of each on the timeline.
        start_ns: when each begins.
        end_ns: when each ends.
    """

    line: Ints
    start_ns: Ints
    end_ns: Ints

    @property
    def waits_ns(self) -> Ints:
        """How long each waits for the last one to begin; 0 where they end as far apart as they begin."""
        last_ns = self.start_ns.max(axis=0)
        end_together = 2 * np.ptp(self.end_ns, axis=0) <= np.ptp(self.start_ns, axis=0)
        waits: Ints = np.where(self.run_at_once & end_together, last_ns - self.start_ns, 0)
        return waits

    @property
    def run_at_once(self) -> Flags:
        """Shape (exchanges,): whether there is an instant at which all run."""
        flags: Flags = self.start_ns.max(axis=0) < self.end_ns.min(axis=0)
        return flags


def note_late_devices(trace: Trace, details: LaunchDetails, timeline: Timeline) -> tuple[str, ...]:
    """A sentence where kernels that communicate mostly wait for another device; none otherwise.

    Args:
        trace: the trace.
        details: of its launches.
        timeline: of its devices.
    """
    rows = np.flatnonzero(timeline.communicates)
    if timeline.axis.lines < 2 or not len(rows):
        return ()
    found = [one for one in _list_exchanges(trace, timeline, rows) if one is not None]
    caused_ns = np.zeros(timeline.axis.lines, np.int64)
    last, spread_ns = np.zeros(timeline.axis.lines, np.int64), np.zeros(timeline.axis.lines, np.int64)
    for one in found:
        waits_ns = one.waits_ns
        latest = one.line[one.start_ns.argmax(axis=0)]
        np.add.at(caused_ns, latest, waits_ns.sum(axis=0))
        np.add.at(spread_ns, latest, waits_ns.max(axis=0))
        np.add.at(last, latest, waits_ns.max(axis=0) > 0)
    waiting_ns = int(caused_ns.sum())
    share = waiting_ns / max(int(details.duration_ns[rows].sum()), 1)
    wall_ns = timeline.whole().total_ns
    if share < _LEAST_OF_COMMUNICATION or waiting_ns < _LEAST_OF_WALL * wall_ns:
        return ()
    late = int(caused_ns.argmax())
    shares = f"{100 * share:.1f} % of their time ({100 * waiting_ns / wall_ns:.1f} % of the wall time)"
    waiting = f"kernels that communicate wait for {shares} until all devices have begun"
    if caused_ns[late] < _LARGEST * waiting_ns:
        return (f"{waiting}: the last one changes, and none causes half of it; compare one step on all devices",)
    exchanges = count(sum(one.start_ns.shape[1] for one in found), "exchange")
    by = duration(int(spread_ns[late] / max(last[late], 1)))
    who = f"{_name(timeline.devices, late)} is the last in {last[late]:,} of {exchanges}, by {by} on average"
    return (f"{waiting}: {who}; compare what it does before with the others",)


def _list_exchanges(trace: Trace, timeline: Timeline, rows: Ints) -> list[_Exchanges | None]:
    names = {shape.name: number for number, shape in enumerate(trace.shapes)}
    of_shape = np.array([names[shape.name] for shape in trace.shapes], np.int64)
    name = of_shape[trace.launches.shape[rows]]
    return [_match(trace, timeline, rows[name == number]) for number in distinct(name).tolist()]


def _match(trace: Trace, timeline: Timeline, rows: Ints) -> _Exchanges | None:
    """The kernels of one name by exchange; None where devices have other numbers of them, or each has its own."""
    start_ns, line = trace.launches.start_ns, timeline.device
    order = rows[np.lexsort((start_ns[rows], line[rows]))]
    lines, sizes = np.unique(line[order], return_counts=True)
    if len(lines) < 2 or len(distinct(sizes)) > 1:
        return None
    order = order.reshape(len(lines), -1)
    found = _Exchanges(lines, start_ns[order], trace.launches.end_ns[order])
    return found if found.run_at_once.mean() >= _MOSTLY else None


def _name(devices: tuple[TraceDevice, ...], line: int) -> str:
    """The number of a device; where others have it as well, with the start of the uuid, or the process."""
    one = devices[line]
    text = f"device {one.ordinal}"
    if [other.ordinal for other in devices].count(one.ordinal) == 1:
        return text
    return f"{text} ({one.uuid[:_UUID_START] or f'process {one.process}'})"
