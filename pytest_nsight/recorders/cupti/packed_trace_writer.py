"""A trace as one file: a line of JSON, and the columns of its tables behind it; packed with gzip.

The worker writes it, the controller reads it (`collectors/cupti/packed_trace_reader.py`).
"""

from __future__ import annotations

import dataclasses
import gzip
from collections.abc import Mapping

# By name: a test may replace what its module holds, and its record must still be written.
from json import dumps
from pathlib import Path
from typing import Any

import numpy as np

from pytest_nsight.model.trace import Calls, Launches, Ranges, Table, Trace

FORMAT = 1

TABLES: Mapping[str, type[Table]] = {"ranges": Ranges, "calls": Calls, "launches": Launches}
"""The tables in the file, in their order."""


def write_trace(path: Path, trace: Trace) -> None:
    """Writes ranges, calls, launches, boards and damage of a trace; the file appears whole or not at all.

    Args:
        path: the file.
        trace: its nodes, samples, diagnostics and notes are left out.
    """
    header = {
        "format": FORMAT,
        "rows": {name: len(getattr(trace, name)) for name in TABLES},
        "strings": trace.strings,
        "shapes": [dataclasses.astuple(shape) for shape in trace.shapes],
        "devices": [dataclasses.asdict(device) for device in trace.devices],
        "damage": trace.damage,
        "tool": trace.tool,
        "epoch_ns": trace.epoch_ns,
    }
    draft = path.with_name(f".{path.name}.part")
    with gzip.open(draft, "wb", compresslevel=1) as file:
        file.write(dumps(header).encode() + b"\n")
        for name, table in TABLES.items():
            for column in table.column_names():
                file.write(getattr(getattr(trace, name), column).astype(stored_type(table, column)).tobytes())
    draft.replace(path)


def stored_type(table: type[Table], column: str) -> np.dtype[Any]:
    """The type of a column in the file, whatever the machine's order of bytes.

    Args:
        table: one of TABLES.
        column: of it.
    """
    found: np.dtype[Any] = table.dtype_of(column).newbyteorder("<")
    return found
