"""The table of CUDA graph nodes: when and on which thread each was captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pytest_nsight.collectors.nsys.columns import Arrays, ExportColumn, process_ids, thread_ids
from pytest_nsight.collectors.nsys.open_export import Export
from pytest_nsight.model.trace import Nodes

NODE_EVENTS = "CUDA_GRAPH_NODE_EVENTS"
OLD_NODE_EVENTS = "CUDA_GRAPH_EVENTS"
"""Its name in 2022.4; from 2024 on, one of that name holds whole graphs and has no column of nodes."""

_DEEPEST = 64
"""Doublings of the step from copy to original: more than any chain needs, and an end for a hostile cycle."""


def columns_of(export: Export) -> Mapping[str, Sequence[ExportColumn]]:
    """The table of this export and its columns; none if it has no nodes.

    Args:
        export: the file.
    """
    for table in (NODE_EVENTS, OLD_NODE_EVENTS):
        if export.has(table, "start", "graphNodeId"):
            return {
                table: (
                    ExportColumn("start"),
                    ExportColumn("start", None, "{}", "end"),
                    ExportColumn("graphNodeId", 0),
                    ExportColumn("originalGraphNodeId", 0),
                    ExportColumn("globalTid", 0),
                )
            }
    return {}


def build_nodes(tables: Mapping[str, Arrays]) -> Nodes:
    """Nodes, each with when and where its first original was made: what is replayed is a copy of it.

    Args:
        tables: table -> columns, as read.
    """
    columns = next((tables[table] for table in (NODE_EVENTS, OLD_NODE_EVENTS) if table in tables), None)
    if columns is None or not len(columns["start"]):
        return Nodes.empty()
    import pandas as pd  # noqa: PLC0415 - few exports hold graphs, and pandas takes long to import

    events = pd.DataFrame(
        {
            "node": columns["graphNodeId"].astype(np.int64),
            "original": columns["originalGraphNodeId"].astype(np.int64),
            "process": process_ids(columns["globalTid"]),
            "thread": thread_ids(columns["globalTid"]),
            "made_ns": columns["start"].astype(np.int64),
        }
    )
    # A copy has two rows: one as a node that appears, one with its original.
    by_node = events.sort_values("made_ns", kind="stable").groupby(["process", "node"], sort=False)
    events = by_node.agg({"original": "max", "thread": "first", "made_ns": "first"}).reset_index()
    ids = pd.MultiIndex.from_frame(events[["process", "node"]])
    origin = ids.get_indexer(pd.MultiIndex.from_frame(events[["process", "original"]]))
    origin = np.where(origin < 0, np.arange(len(events)), origin)
    for _ in range(_DEEPEST):
        further = origin[origin]
        if (further == origin).all():
            break
        origin = further
    return Nodes(
        node=events["node"].to_numpy(np.int64),
        process=events["process"].to_numpy(np.int64),
        thread=events["thread"].to_numpy(np.int64)[origin],
        made_ns=events["made_ns"].to_numpy(np.int64)[origin],
    )
