"""What sampled GPU counters say of a recording, of its ranges, and of its kernels. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.intervals import TimeSet
from pytest_nsight.analysis.range_tree import RangeTable
from pytest_nsight.analysis.selection import find_window
from pytest_nsight.analysis.timeline import Timeline
from pytest_nsight.model.gpu_samples import GpuSamples, MetricMeans
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.model.units import count
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.metric_means import average, choose_samples

_MOST = 12
"""Ranges, and kernels, that are looked at: those with the most device time."""


@dataclass(frozen=True, slots=True)
class MetricUse:
    """The counters of one board during one part of a recording.

    Attributes:
        part: "device" for all of the window, "range" or "kernel".
        name: label of the range or name of the kernel; "" for all.
        device: index into the timeline's devices.
        means: over the samples that lie in it.
    """

    part: str
    name: str
    device: int
    means: MetricMeans


def measure_metrics(
    trace: Trace, details: LaunchDetails, timeline: Timeline, table: RangeTable, window: TimeSet, rows: Ints
) -> tuple[MetricUse, ...]:
    """The counters over the whole window, the ranges and the kernels with the most device time.

    For a range, samples count from its start on the host to the end of its last launch, idle time included. For a
    kernel, samples count while it runs, even if other kernels run too.

    Args:
        trace: with or without samples.
        details: of its launches.
        timeline: of its devices.
        table: the ranges.
        window: what the picture is about.
        rows: the launches that it is about.
    """
    found: list[MetricUse] = []
    for samples in trace.samples:
        line = _find_line(trace, timeline, samples)
        if line is None:
            continue
        parts = [
            ("device", "", window),
            *(("range", name, times) for name, times in _list_ranges(trace, timeline, table)),
            *(("kernel", name, times) for name, times in _list_kernels(trace, details, timeline, rows)),
        ]
        bytes_per_s = trace.devices[samples.device].bytes_per_s
        for part, name, times in parts:
            means = average(samples, _choose(samples, times, line), bytes_per_s)
            found.append(MetricUse(part, name, line, means))
    return tuple(found)


def note_unplaced(trace: Trace, timeline: Timeline) -> tuple[str, ...]:
    """A sentence where boards were sampled and it is unknown whether the recorded work ran on them; none otherwise.

    A board that was sampled and not used needs no sentence.

    Args:
        trace: with or without samples.
        timeline: of its devices.
    """
    unplaced = [one for one in trace.samples if _find_line(trace, timeline, one) is None]
    if not unplaced or all(device.uuid for device in timeline.devices):
        return ()
    boards = count(len(unplaced), "board")
    why = "on a machine with several boards, older versions of nsys do not record on which of them a process ran"
    return (f"the GPU metrics of {boards} are left out: {why}; record with nsys 2025.3 or newer",)


def _find_line(trace: Trace, timeline: Timeline, samples: GpuSamples) -> int | None:
    """Where the sampled board stands in the timeline; None where nothing ran on it."""
    if samples.device < 0:
        return None
    uuid = trace.devices[samples.device].uuid
    return next((place for place, device in enumerate(timeline.devices) if device.uuid == uuid), None)


def _choose(samples: GpuSamples, times: TimeSet, line: int) -> Flags:
    own = times.line == line
    start_ns = times.start_ns[own]
    return choose_samples(samples, start_ns, start_ns + times.length_ns[own])


def _list_ranges(trace: Trace, timeline: Timeline, table: RangeTable) -> Sequence[tuple[str, TimeSet]]:
    """The labels with the most device time, and when they were open."""
    if not len(table.rows):
        return ()
    totals = np.bincount(table.label, table.costs.kernel_ns + table.costs.copy_ns, len(table.labels))
    return [
        (table.labels[label], find_window(trace, timeline, table, np.flatnonzero(table.label == label)))
        for label in np.argsort(-totals, kind="stable")[:_MOST].tolist()
        if totals[label]
    ]


def _list_kernels(
    trace: Trace, details: LaunchDetails, timeline: Timeline, rows: Ints
) -> Sequence[tuple[str, TimeSet]]:
    """The kernels with the most time, and when they ran."""
    launches = trace.launches
    rows = rows[details.is_compute[rows]]
    names = {name: number for number, name in enumerate(dict.fromkeys(shape.name for shape in trace.shapes))}
    of_shape = np.array([names[shape.name] for shape in trace.shapes], np.int64)
    number = of_shape[launches.shape[rows]] if len(rows) else np.empty(0, np.int64)
    totals = np.bincount(number, details.duration_ns[rows], len(names))
    listed = []
    for place in np.argsort(-totals, kind="stable")[:_MOST].tolist():
        own = rows[number == place]
        if len(own):
            times = TimeSet.union(timeline.axis, timeline.device[own], launches.start_ns[own], launches.end_ns[own])
            listed.append((list(names)[place], times))
    return listed
