"""What a run shows of each case beside its times: the timeline of one round, and sampled counters. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from pytest_nsight.model.api_calls import function_name
from pytest_nsight.model.gpu_samples import MetricMeans
from pytest_nsight.model.round_timeline import RoundTimeline, TimelineLane, TimelineSpan, thin
from pytest_nsight.model.shapes import COPY_KINDS
from pytest_nsight.model.trace import OWN_DOMAIN, Ints, Trace
from pytest_nsight.model.values import typical_share
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.trace.attribution import attribute
from pytest_nsight.trace.descendants import find_workers_of_events
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.launches_by_time import list_rounds
from pytest_nsight.trace.measures import Measured
from pytest_nsight.trace.metric_means import average, choose_samples

MOST_SPANS = 200
"""Bars of a timeline: a page of 200 cases stays readable and small."""

_FEWEST_SPANS = 12
"""Bars that every lane may have all the same."""

_MOST_STREAMS = 8
_MOST_DEPTHS = 4
_MOST_GAPS = 40


def cut_rounds(
    manifest: Manifest, trace: Trace, measured: Measured, parents: Mapping[int, int]
) -> dict[str, RoundTimeline]:
    """The typical round of every case, by kernel time: the median one on a GPU, a fast one on a CPU.

    Args:
        manifest: the rounds that a worker ran.
        trace: what was recorded of it.
        measured: the attributed launches of the trace.
        parents: process id -> process id of the worker in whose rounds its launches count.

    Returns:
        Case -> its timeline; a case whose rounds are not in the trace has none.
    """
    chosen = _choose_rounds(manifest, measured)
    if chosen.empty:
        return {}
    details = LaunchDetails.of(trace, list_rounds([manifest]))
    rows = _find_rows(trace, manifest.pid, chosen["id"].to_numpy())
    placed = np.flatnonzero(details.is_placed)
    process = find_workers_of_events(trace.launches.process[placed], parents)
    members = attribute(trace, rows, process, *details.origin(trace, placed))
    timelines = {}
    columns = (chosen[name].tolist() for name in ("case", "number", "kernel_ns"))
    for place, (row, case, number, kernel_ns) in enumerate(zip(rows.tolist(), *columns, strict=True)):
        _, events = members.pairs(place, place + 1)
        launched = placed[events]
        start_ns = int(trace.ranges.start_ns[row])
        ends_ns = [int(trace.ranges.end_ns[row]), *trace.launches.end_ns[launched].tolist()]
        order = launched[np.argsort(trace.launches.start_ns[launched], kind="stable")]
        gaps = _find_gaps(trace.launches.start_ns[order] - start_ns, trace.launches.end_ns[order] - start_ns)
        timelines[case] = RoundTimeline(
            run=manifest.run,
            round=number,
            wall_ns=max(ends_ns) - start_ns,
            kernel_ns=kernel_ns,
            lanes=_list_lanes(trace, row, order),
            idle_ns=sum(end - start for start, end in gaps),
            gaps=tuple(sorted(sorted(gaps, key=lambda gap: gap[0] - gap[1])[:_MOST_GAPS])),
        )
    return timelines


def _choose_rounds(manifest: Manifest, measured: Measured) -> pd.DataFrame:
    """One row a case: "case", "id" of its typical round, the round's "number", "kernel_ns"."""
    numbers: dict[str, int] = {}
    rounds = []
    for one in manifest.rounds:
        numbers[one.case] = numbers.get(one.case, 0) + 1
        rounds.append((one.case, one.id, numbers[one.case]))
    table = pd.DataFrame(rounds, columns=["case", "id", "number"])
    own = measured.ranges[(measured.ranges["process"] == manifest.pid) & (measured.ranges["id"] >= 0)]
    joined = table.merge(own.drop_duplicates("id")[["id", "kernel_ns"]], on="id")
    joined = joined.sort_values(["case", "kernel_ns", "id"], kind="stable")
    place, size = joined.groupby("case").cumcount(), joined.groupby("case")["id"].transform("size")
    chosen: pd.DataFrame = joined[place == (typical_share(manifest.board) * (size - 1)).astype(int)]
    return chosen


def _find_rows(trace: Trace, process: int, ids: Ints) -> Ints:
    """Rows of the ranges with these payloads."""
    ranges = trace.ranges
    own = np.flatnonzero((ranges.domain == trace.strings.index(OWN_DOMAIN)) & (ranges.process == process))
    own = own[np.argsort(ranges.payload[own], kind="stable")]
    rows: Ints = own[np.searchsorted(ranges.payload[own], ids)]
    return rows


def _list_lanes(trace: Trace, row: int, order: Ints) -> tuple[TimelineLane, ...]:
    """The lanes of one round, whose launches are given in order of start."""
    ranges, launches = trace.ranges, trace.launches
    zero_ns, end_ns = int(ranges.start_ns[row]), int(ranges.end_ns[row])
    starts, ends = launches.start_ns[order] - zero_ns, launches.end_ns[order] - zero_ns
    inside = (ranges.start_ns >= zero_ns) & (ranges.end_ns <= end_ns) & (ranges.process == ranges.process[row])
    inside[row] = False
    lanes = [
        *_nest(trace, np.flatnonzero(inside), zero_ns),
        *_list_calls(trace, row, zero_ns),
        *_list_streams(trace, order, starts, ends),
    ]
    most = max(_FEWEST_SPANS, MOST_SPANS // max(len(lanes), 1))
    return tuple(TimelineLane(lane.title, lane.kind, thin(lane.spans, most)) for lane in lanes)


def _nest(trace: Trace, rows: Ints, zero_ns: int) -> Iterable[TimelineLane]:
    """Ranges in as few lanes as need be: what overlaps a range comes below it."""
    ranges = trace.ranges
    rows = rows[np.lexsort((-ranges.end_ns[rows], ranges.start_ns[rows]))]
    depths: list[list[TimelineSpan]] = []
    for row in rows.tolist():
        name = trace.strings[ranges.name[row]]
        span = TimelineSpan(name, int(ranges.start_ns[row]) - zero_ns, int(ranges.end_ns[row]) - zero_ns)
        free = next((lane for lane in depths if lane[-1].end_ns <= span.start_ns), None)
        if free is not None:
            free.append(span)
        elif len(depths) < _MOST_DEPTHS:
            depths.append([span])
    for depth, spans in enumerate(depths):
        yield TimelineLane("ranges" if depth == 0 else "", "range", tuple(spans))


def _list_calls(trace: Trace, row: int, zero_ns: int) -> Iterable[TimelineLane]:
    """The CUDA calls that began in the round, of all threads of its process."""
    ranges, calls = trace.ranges, trace.calls
    is_own = (calls.start_ns >= zero_ns) & (calls.start_ns < ranges.end_ns[row])
    own = np.flatnonzero(is_own & (calls.process == ranges.process[row]))
    if len(own):
        names = [function_name(trace.strings[number]) for number in calls.name[own].tolist()]
        spans = _make_spans(names, calls.start_ns[own] - zero_ns, calls.end_ns[own] - zero_ns)
        yield TimelineLane("CUDA calls", "call", tuple(spans))


def _list_streams(trace: Trace, order: Ints, starts: Ints, ends: Ints) -> Iterable[TimelineLane]:
    """Kernels and copies, a lane for each stream that has some; the streams of least work share the last one."""
    launches = trace.launches
    names = [trace.shapes[shape].name for shape in launches.shape[order].tolist()]
    is_copy = np.isin([trace.shapes[shape].kind for shape in launches.shape[order].tolist()], COPY_KINDS)
    devices = len(np.unique(launches.device[order]))
    keys = list(zip(launches.device[order].tolist(), launches.stream[order].tolist(), strict=True))
    work: dict[tuple[int, int], int] = {}
    for key, length in zip(keys, (ends - starts).tolist(), strict=True):
        work[key] = work.get(key, 0) + length
    shown = sorted(sorted(work, key=lambda key: -work[key])[:_MOST_STREAMS])
    places = {key: place for place, key in enumerate(shown)}
    lane = np.array([places.get(key, len(shown)) for key in keys], np.int64)
    titles = [
        f"device {device}, stream {stream}" if devices > 1 else f"stream {stream}" for device, stream in shown
    ]
    for place, title in enumerate([*titles, "other streams"]):
        for kind, chosen in (("kernel", ~is_copy), ("copy", is_copy)):
            own = np.flatnonzero((lane == place) & chosen)
            if len(own):
                spans = _make_spans([names[number] for number in own.tolist()], starts[own], ends[own])
                yield TimelineLane(title, kind, tuple(spans))


def _make_spans(names: Sequence[str], starts: Ints, ends: Ints) -> list[TimelineSpan]:
    rows = zip(names, starts.tolist(), ends.tolist(), strict=True)
    return [TimelineSpan(name, start, max(start, end)) for name, start, end in rows]


def _find_gaps(starts: Ints, ends: Ints) -> list[tuple[int, int]]:
    """The stretches without work between launches in order of start."""
    if len(starts) < 2:
        return []
    reached = np.maximum.accumulate(ends)[:-1]
    found = np.flatnonzero(starts[1:] > reached)
    return list(zip(reached[found].tolist(), starts[1:][found].tolist(), strict=True))


def average_cases(manifest: Manifest, trace: Trace, measured: Measured) -> Mapping[str, MetricMeans]:
    """Case -> the means over its rounds on the board that the worker measured on; empty without samples.

    Args:
        manifest: the rounds that a worker ran.
        trace: what was recorded of it.
        measured: the attributed launches of the trace.
    """
    own = [one for one in trace.samples if one.device >= 0 and trace.devices[one.device].uuid == manifest.board]
    if not own:
        return {}
    (samples,) = own[:1]
    ranges = measured.ranges[(measured.ranges["process"] == manifest.pid) & (measured.ranges["id"] >= 0)]
    times = ranges.drop_duplicates("id").set_index("id")[["start_ns", "end_ns"]]
    found = {}
    for case in dict.fromkeys(one.case for one in manifest.rounds):
        ids = [one.id for one in manifest.rounds if one.case == case and one.id in times.index]
        rounds = times.loc[ids].sort_values("start_ns")
        chosen = choose_samples(samples, rounds["start_ns"].to_numpy(), rounds["end_ns"].to_numpy())
        found[case] = average(samples, chosen, trace.devices[samples.device].bytes_per_s)
    return found
