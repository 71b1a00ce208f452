"""The table of CUDA graph nodes: when and on which thread each was captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pytest_nsight.collectors.nsys.columns import Arrays, ExportColumn, process_ids, thread_ids
from pytest_nsight.collectors.nsys.open_export import Export
from pytest_nsight.model.sorted_keys import join_keys
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
    node, process = columns["graphNodeId"].astype(np.int64), process_ids(columns["globalTid"])
    order = np.lexsort((columns["start"], node, process))
    node, process = node[order], process[order]
    # A copy has two rows: one as a node that appears, one with its original.
    is_first = np.ones(len(node), np.bool_)
    is_first[1:] = (node[1:] != node[:-1]) | (process[1:] != process[:-1])
    first = np.flatnonzero(is_first)
    original = np.maximum.reduceat(columns["originalGraphNodeId"].astype(np.int64)[order], first)
    node, process, row = node[first], process[first], order[first]
    keys, originals = join_keys((process, node), (process, original))
    at = np.minimum(np.searchsorted(keys, originals), len(keys) - 1)
    origin = np.where(keys[at] == originals, at, np.arange(len(keys)))
    for _ in range(_DEEPEST):
        further = origin[origin]
        if (further == origin).all():
            break
        origin = further
    made_ns, thread = columns["start"].astype(np.int64)[row], thread_ids(columns["globalTid"])[row]
    return Nodes(node=node, process=process, thread=thread[origin], made_ns=made_ns[origin])
