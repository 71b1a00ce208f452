"""The large tables of an export as columns, with their times and sizes checked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pytest_nsight.collectors.nsys import (
    allocation_tables,
    call_tables,
    device_tables,
    graph_tables,
    nvtx_table,
    sample_tables,
)
from pytest_nsight.collectors.nsys.columns import Arrays, read_columns
from pytest_nsight.collectors.nsys.open_export import AGAIN, Export
from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.units import count

LATEST_NS = 2**62
"""146 years: what lies beyond is no time, and would overflow a difference."""

MOST_BYTES = 2**48
"""No copy and no allocation has 256 TB; sums of such would overflow."""


def read_tables(export: Export) -> dict[str, Arrays]:
    """Table -> columns, empty where the export lacks the table.

    Args:
        export: the file.

    Raises:
        TraceError: it is damaged, or holds a time or a size that is none.
    """
    tables = read_columns(
        export,
        {
            **nvtx_table.COLUMNS,
            **call_tables.COLUMNS,
            **device_tables.COLUMNS,
            **graph_tables.columns_of(export),
            **sample_tables.COLUMNS,
            **allocation_tables.COLUMNS,
        },
    )
    _check_times(export, tables)
    _check_bytes(export, tables)
    return tables


def _check_times(export: Export, tables: Mapping[str, Arrays]) -> None:
    for table, columns in tables.items():
        for name in {"start", "end"}.intersection(columns):
            times = columns[name]
            # Not abs(): the smallest integer has no opposite.
            wrong = np.flatnonzero((times <= -LATEST_NS) | (times >= LATEST_NS))
            if len(wrong):
                raise TraceError(f"table {table} of {export.path} holds {times[wrong[0]]} ns as a time; {AGAIN}")


def _check_bytes(export: Export, tables: Mapping[str, Arrays]) -> None:
    for table, columns in tables.items():
        sizes = columns.get("bytes", np.empty(0, np.int64))
        wrong = np.flatnonzero((sizes < 0) | (sizes > MOST_BYTES))
        if len(wrong):
            what = "an allocation" if table == allocation_tables.USAGE else "a copy"
            raise TraceError(f"table {table} of {export.path} holds {what} of {sizes[wrong[0]]} bytes; {AGAIN}")


def mend_ends(tables: Mapping[str, Arrays]) -> list[str]:
    """Notes on rows that end before they start; these get no length.

    Args:
        tables: table -> columns, of tables whose rows have both.
    """
    notes = []
    for table, columns in tables.items():
        is_closed = columns.get("is_open", np.zeros(1)) == 0
        wrong = (columns["end"] < columns["start"]) & is_closed
        if wrong.any():
            columns["end"] = np.maximum(columns["start"], columns["end"])
            one, many = (
                f"row of {table} ends before it starts; its",
                f"rows of {table} end before they start; their",
            )
            notes.append(f"{count(int(wrong.sum()), one, many)} length counts as 0")
    return notes
