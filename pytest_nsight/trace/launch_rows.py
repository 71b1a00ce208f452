"""Launches, ranges and copies of a trace as tables for people: one row each, names in place of numbers. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pytest_nsight.model.trace import OWN_DOMAIN, Flags, Ints, SmallInts, Trace
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.trace.attribution import attribute
from pytest_nsight.trace.descendants import find_parents, find_workers_of_events
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.launches_by_time import list_rounds

_NOWHERE = -1


def list_launches(trace: Trace) -> pd.DataFrame:
    """Every kernel, CUDA graph, operator, copy and memory set, in order of start.

    Args:
        trace: any trace.

    Returns:
        Columns "kind" (kernel, graph, operator, memcpy or memset), "kernel" (normalised name), "full_name",
        "start_ns", "duration_ns", "grid" and "block" (three numbers each), "registers" (of a thread),
        "shared_bytes" (of a block), "bytes" (moved by copies and sets), "stream", "device" (ordinal in its
        process), "process".
    """
    launches, shapes = trace.launches, trace.shapes
    order = np.argsort(launches.start_ns, kind="stable")
    shape = launches.shape[order]
    table: pd.DataFrame = pd.DataFrame(
        {
            "kind": _pick([one.kind for one in shapes], shape),
            "kernel": _pick([one.name for one in shapes], shape),
            "full_name": _pick([one.full_name or one.name for one in shapes], shape),
            "start_ns": launches.start_ns[order],
            "duration_ns": np.maximum(launches.end_ns - launches.start_ns, 0)[order],
            "grid": _pick([one.grid for one in shapes], shape),
            "block": _pick([one.block for one in shapes], shape),
            "registers": _pick([one.registers for one in shapes], shape),
            "shared_bytes": _pick([one.shared_bytes for one in shapes], shape),
            "bytes": launches.bytes_moved[order],
            "stream": launches.stream[order],
            "device": launches.device[order],
            "process": launches.process[order],
        }
    )
    table.index = pd.Index(order, name="launch")
    return table


def list_round_launches(manifest: Manifest, trace: Trace) -> pd.DataFrame:
    """The launches of the measured rounds of one worker, in order of start.

    Args:
        manifest: the worker's account of its rounds.
        trace: what the profiler saw of it.

    Returns:
        Columns "run", "case", "part" (the innermost named range, "" outside of all), "round" (from 0), then those
        of `list_launches`. A launch in no round is left out.
    """
    ids, parts = _number_rounds(manifest)
    rows = np.flatnonzero(_is_own(trace) & np.isin(trace.ranges.payload, ids["id"].to_numpy()))
    rows = rows[np.lexsort((-trace.ranges.end_ns[rows], trace.ranges.start_ns[rows]))]
    details = LaunchDetails.of(trace, list_rounds([manifest]))
    launched = np.flatnonzero(details.is_placed)
    process = find_workers_of_events(trace.launches.process[launched], find_parents(trace, {manifest.pid}, {}))
    members = attribute(trace, rows, process, *details.origin(trace, launched))
    where, event = members.pairs(0, len(rows))
    # Ranges are in order of start, so the last one that holds a launch is the innermost.
    innermost = np.full(len(trace.launches), _NOWHERE, np.int64)
    np.maximum.at(innermost, launched[event], where)
    inside = np.flatnonzero(innermost != _NOWHERE)
    payload = trace.ranges.payload[rows[innermost[inside]]]
    place = ids.set_index("id").loc[payload]
    placed = pd.DataFrame(
        {
            "run": manifest.run,
            "case": place["case"].to_numpy(),
            "part": [parts.get(one, "") for one in payload.tolist()],
            "round": place["round"].to_numpy(),
        },
        index=pd.Index(inside, name="launch"),
    )
    joined: pd.DataFrame = placed.join(list_launches(trace)).sort_values("start_ns", kind="stable")
    numbered: pd.DataFrame = joined.reset_index(drop=True)
    return numbered


def list_ranges(trace: Trace) -> pd.DataFrame:
    """Every NVTX range, in order of start.

    Returns:
        Columns "name", "domain", "start_ns", "duration_ns", "payload" (-1 where there is none), "process", "thread"
        (-1 where it is bound to none), "is_open" (whether its end is missing).
    """
    ranges = trace.ranges
    order = np.lexsort((-ranges.end_ns, ranges.start_ns))
    table: pd.DataFrame = pd.DataFrame(
        {
            "name": _pick(trace.strings, ranges.name[order]),
            "domain": _pick(trace.strings, ranges.domain[order]),
            "start_ns": ranges.start_ns[order],
            "duration_ns": np.maximum(ranges.end_ns - ranges.start_ns, 0)[order],
            "payload": ranges.payload[order],
            "process": ranges.process[order],
            "thread": ranges.thread[order],
            "is_open": ranges.is_open[order],
        }
    )
    return table


def _number_rounds(manifest: Manifest) -> tuple[pd.DataFrame, dict[int, str]]:
    """The case and the number of the round of each payload, and the names of the payloads of parts."""
    rounds: dict[str, int] = {}
    rows: list[tuple[int, str, int]] = []
    parts: dict[int, str] = {}
    for one in manifest.rounds:
        number = rounds[one.case] = rounds.get(one.case, _NOWHERE) + 1
        rows += [(payload, one.case, number) for payload in (one.id, *(payload for payload, _ in one.parts))]
        parts.update(one.parts)
    return pd.DataFrame(rows, columns=["id", "case", "round"]), parts


def _is_own(trace: Trace) -> Flags:
    domain = trace.strings.index(OWN_DOMAIN) if OWN_DOMAIN in trace.strings else _NOWHERE
    is_own: Flags = trace.ranges.domain == domain
    return is_own


def _pick(values: Sequence[object], numbers: Ints | SmallInts) -> list[object]:
    return [values[number] for number in numbers.tolist()]
