"""What the ranges that were open during the capture of a CUDA graph cost in each replay.

A replay is one call. By the time of that call, every node of the graph belongs to the range around the replay. The
ranges that were open during the capture have ended by then. The export records when each node was made, and that
moment lies inside the ranges of the capture. So a node belongs to ranges by its replay and by its creation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.trace import OWN_DOMAIN, Ints, Trace
from pytest_nsight.trace.attribution import NO_CALL, attribute, find_nodes
from pytest_nsight.trace.launch_table import MOST_PAIRS, LaunchDetails, measure_launches


@dataclass(frozen=True)
class Captured:
    """What the ranges of captures cost in each replay, as columns: pandas would take longer to import than to use.

    Attributes:
        parts: name of a column -> shape (parts,), one row for each pair of a replay and a range of its capture, in
            order of the replay's call. "process", "called_ns" and "replay_ns" describe the call that replayed the
            graph: its process, its start, and its length on the host for the whole graph. "name", "domain",
            "start_ns" and "end_ns" describe the range. The sums are those of Measured.ranges, over the nodes that
            were made in the range: "kernel_ns", "busy_ns", "span_ns", "gap_ns", "copy_ns", "copied_bytes",
            "copies", "launches", "device".
        kernels: name of a column -> shape (uses,), as Measured.kernels; "range" is the row of ``parts``.
    """

    parts: Mapping[str, NDArray[Any]]
    kernels: Mapping[str, Ints]

    def __len__(self) -> int:
        """Number of parts."""
        return len(self.parts["called_ns"])


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
    pairs = np.stack([called_ns, call[event], where, chosen[event]])[:, is_earlier]
    called_ns, call, where, launch = pairs[:, np.lexsort(pairs[2::-1])]
    is_first = np.ones(len(launch), np.bool_)
    is_first[1:] = (call[1:] != call[:-1]) | (where[1:] != where[:-1])
    first = np.flatnonzero(is_first)
    sums, kernels = measure_launches(trace, details, np.cumsum(is_first) - 1, launch, len(first))
    del sums["launch_ns"]
    return Captured({**_describe(trace, call[first], where[first]), **sums}, kernels)


def _describe(trace: Trace, call: Ints, row: Ints) -> dict[str, NDArray[Any]]:
    """The columns of Captured.parts that describe the replay and the range."""
    calls, ranges, texts = trace.calls, trace.ranges, np.array(trace.strings, dtype=object)
    return {
        "process": calls.process[call],
        "called_ns": calls.start_ns[call],
        "replay_ns": np.maximum(calls.end_ns[call] - calls.start_ns[call], 0),
        "name": texts[ranges.name[row]],
        "domain": texts[ranges.domain[row]],
        "start_ns": ranges.start_ns[row],
        "end_ns": ranges.end_ns[row],
    }
