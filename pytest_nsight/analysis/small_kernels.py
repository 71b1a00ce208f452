"""Sequences of small kernels that fusion or a CUDA graph would shorten, with the time at stake. Pure.

Two kernels belong together if one follows the other on a stream, with no other launch between them. A sequence is
what occurs as a whole: a layer's chain of kernels is one row, whatever the number of layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.recurrences import find_recurrences
from pytest_nsight.analysis.timeline import Timeline
from pytest_nsight.model.trace import Flags, Ints, Trace

SMALL_NS = 10_000
"""A kernel shorter than this takes about as long as its launch."""
_APART_NS = 1_000_000
"""Kernels further apart than this do not belong to one sequence."""
FUSIBLE = frozenset({"elementwise", "normalisation", "softmax", "reduction", "memory"})
"""Categories whose kernels a compiler can fuse with their neighbours."""


@dataclass(frozen=True, slots=True)
class KernelSequence:
    """Small kernels that follow one another again and again.

    Attributes:
        names: normalised names, in order.
        count: how often the sequence occurs; occurrences do not overlap.
        kernel_ns: time of the kernels of all occurrences; two sequences may share some.
        gap_ns: time between these kernels in which the device is idle, also between an occurrence and the next one
            that follows at once: what a CUDA graph would save most of.
        is_fusible: whether all of its kernels are of categories that a compiler fuses.
    """

    names: tuple[str, ...]
    count: int
    kernel_ns: int
    gap_ns: int
    is_fusible: bool


def find_sequences(
    trace: Trace, rows: Ints, timeline: Timeline, categories: Sequence[str]
) -> tuple[KernelSequence, ...]:
    """Sequences of small kernels, those with the most time at stake first.

    Args:
        trace: the trace.
        rows: shape (launches,), rows of ``trace.launches`` that count.
        timeline: of the trace.
        categories: category of each shape.
    """
    launches = trace.launches
    is_kernel = np.array([shape.kind == "kernel" for shape in trace.shapes], np.bool_)
    if not is_kernel.any() or not len(rows):
        return ()
    order = _sort(trace, timeline)
    duration_ns = launches.end_ns[order] - launches.start_ns[order]
    is_chosen = np.zeros(len(launches), np.bool_)
    is_chosen[rows[is_kernel[launches.shape[rows]] & (launches.graph_node[rows] == 0)]] = True
    is_small = is_chosen[order] & (duration_ns < SMALL_NS)
    follows = _follow(trace, order, timeline.device) & is_small[:-1] & is_small[1:]
    names = {name: number for number, name in enumerate(dict.fromkeys(shape.name for shape in trace.shapes))}
    name = np.array([names[shape.name] for shape in trace.shapes], np.int64)[launches.shape[order]]
    gap_ns = np.zeros(len(order), np.int64)
    at = np.flatnonzero(follows)
    gap_ns[at] = _measure_idle(trace, timeline, order, at)
    category = {shape.name: categories[number] for number, shape in enumerate(trace.shapes)}
    texts = list(names)
    found = []
    for one in find_recurrences(name, follows):
        members = one.places[:, None] + np.arange(one.length)
        own = tuple(texts[number] for number in name[members[0]].tolist())
        found.append(
            KernelSequence(
                names=own,
                count=len(one.places),
                kernel_ns=int(duration_ns[members].sum()),
                gap_ns=int(gap_ns[one.joins].sum()),
                is_fusible=all(category[text] in FUSIBLE for text in own),
            )
        )
    return tuple(sorted(found, key=lambda one: (-(one.gap_ns + one.kernel_ns * one.is_fusible), one.names)))


def _sort(trace: Trace, timeline: Timeline) -> Ints:
    """The rows of all launches by stream and start. Streams of two processes on one device may have one number."""
    launches = trace.launches
    keys = (launches.start_ns, launches.stream, launches.process, timeline.device)
    return np.lexsort(keys)


def _measure_idle(trace: Trace, timeline: Timeline, order: Ints, at: Ints) -> Ints:
    """How long the device is idle between some launches and the ones that follow them; no instant counts twice.

    Args:
        trace: the trace.
        timeline: of the trace.
        order: shape (launches,), rows of ``trace.launches`` by device, process, stream and start.
        at: places in `order`.
    """
    launches, line = trace.launches, timeline.device
    begin_ns, end_ns = launches.end_ns[order[at]], launches.start_ns[order[at + 1]]
    streams = 1 + np.count_nonzero(~_is_one_stream(trace, order, line))
    # With one stream for each device nothing else can run in the gap.
    if streams <= timeline.axis.lines:
        gap_ns: Ints = np.maximum(end_ns - begin_ns, 0)
        return gap_ns
    place = timeline.axis.place
    low, high = place(line[order[at]], begin_ns), place(line[order[at]], end_ns)
    by_start = np.argsort(low, kind="stable")
    reached = np.maximum.accumulate(high[by_start])
    # Streams may be idle at the same time: it counts for the gap that began first.
    low[by_start[1:]] = np.maximum(low[by_start[1:]], reached[:-1])
    high = np.maximum(low, high)
    return high - low - timeline.busy.covered(low, high)


def _follow(trace: Trace, order: Ints, device: Ints) -> Flags:
    """Whether each launch and the next one are close together on one stream."""
    launches = trace.launches
    gap_ns = launches.start_ns[order[1:]] - launches.end_ns[order[:-1]]
    follows: Flags = _is_one_stream(trace, order, device) & (gap_ns < _APART_NS)
    return follows


def _is_one_stream(trace: Trace, order: Ints, device: Ints) -> Flags:
    """Whether each launch and the next one are of one stream."""
    flags: Flags = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in (device, trace.launches.process, trace.launches.stream):
        ordered = column[order]
        flags &= ordered[1:] == ordered[:-1]
    return flags
