"""What the ranges that were open during the capture of a CUDA graph cost in each replay.

A replay is one call. By the time of that call, every node of the graph belongs to the range around the replay. The
ranges that were open during the capture have ended by then. The export records when each node was made, and that
moment lies inside the ranges of the capture. So a node belongs to ranges by its replay and by its creation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.trace import OWN_DOMAIN, Ints, Trace
from pytest_nsight.trace.attribution import NO_CALL, attribute, find_nodes
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.measures import MOST_PAIRS, measure_launches


@dataclass(frozen=True)
class Captured:
    """What the ranges of captures cost in each replay.

    Attributes:
        parts: one row for each pair of a replay and a range of its capture, in order of the replay's call.
            "process", "called_ns" and "replay_ns" describe the call that replayed the graph: its process, its
            start, and its length on the host for the whole graph. "name", "domain", "start_ns" and "end_ns"
            describe the range. The sums are those of Measured.ranges, over the nodes that were made in the
            range: "kernel_ns", "busy_ns", "span_ns", "gap_ns", "copy_ns", "copied_bytes", "copies", "launches",
            "device".
        kernels: as Measured.kernels; "range" is the row of ``parts``.
    """

    parts: pd.DataFrame
    kernels: pd.DataFrame


def measure_captured(trace: Trace, domain: str | None = OWN_DOMAIN) -> Captured:
    """The nodes of replayed graphs, added up by the ranges in which they were captured.

    A range that also contains the replay is left out, because the nodes belong to it already.

    Args:
        trace: any trace; one without rows in ``nodes`` gives no rows.
        domain: NVTX domain of the ranges in question, None for all.

    Raises:
        TraceError: the ranges nest too deep.
    """
    ranges, nodes = trace.ranges, trace.nodes
    wanted = [number for number, text in enumerate(trace.strings) if domain in (None, text)]
    rows = np.flatnonzero(np.isin(ranges.domain, wanted))
    details = LaunchDetails.of(trace)
    made = find_nodes(trace)
    # Only the call says which replay a node belongs to.
    chosen = np.flatnonzero((made >= 0) & (details.call != NO_CALL))
    node, call = made[chosen], details.call[chosen]
    members = attribute(trace, rows, nodes.process[node], nodes.thread[node], nodes.made_ns[node])
    if int(members.counts.sum()) > MOST_PAIRS:
        raise TraceError("ranges of captures hold too many nodes, as they enclose one another; choose a domain")
    where, event = members.pairs(0, len(rows))
    where = rows[where]
    called_ns = trace.calls.start_ns[call[event]]
    is_earlier = (called_ns < ranges.start_ns[where]) | (called_ns >= ranges.end_ns[where])
    pairs = pd.DataFrame({"called_ns": called_ns, "call": call[event], "range": where, "launch": chosen[event]})[
        is_earlier
    ]
    keys = ["called_ns", "call", "range"]
    group: Ints = pairs.groupby(keys).ngroup().to_numpy(np.int64)
    order = np.argsort(group, kind="stable")
    first = pairs.drop_duplicates(keys).sort_values(keys)
    row = pairs["launch"].to_numpy(np.int64)[order]
    sums, kernels = measure_launches(trace, details, group[order], row, len(first))
    del sums["launch_ns"]
    return Captured(_describe(trace, first).assign(**sums), pd.DataFrame(kernels))


def _describe(trace: Trace, first: pd.DataFrame) -> pd.DataFrame:
    """The columns of Captured.parts that describe the replay and the range."""
    calls, ranges, texts = trace.calls, trace.ranges, np.array(trace.strings, dtype=object)
    call, row = first["call"].to_numpy(np.int64), first["range"].to_numpy(np.int64)
    table: pd.DataFrame = pd.DataFrame(
        {
            "process": calls.process[call],
            "called_ns": calls.start_ns[call],
            "replay_ns": np.maximum(calls.end_ns[call] - calls.start_ns[call], 0),
            "name": texts[ranges.name[row]],
            "domain": texts[ranges.domain[row]],
            "start_ns": ranges.start_ns[row],
            "end_ns": ranges.end_ns[row],
        }
    )
    return table
