"""The table of strings of an export: names of kernels, calls and ranges, each by a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_nsight.collectors.nsys import call_tables, device_tables, nvtx_table
from pytest_nsight.collectors.nsys.columns import Arrays
from pytest_nsight.collectors.nsys.open_export import AGAIN, Export
from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.units import count

IDS_AT_ONCE = 500


def read_strings(
    export: Export, tables: Mapping[str, Arrays], inline: nvtx_table.InlineNames
) -> tuple[dict[int, str], tuple[str, ...]]:
    """The names of kernels, calls and ranges by their ids; other strings, such as the environment, are not read.

    Args:
        export: the file.
        tables: table -> columns, as read.
        inline: names that ranges and domains have in their own rows.

    Returns:
        The names, and a sentence on ranges whose names are missing: somebody else's ranges need not matter.

    Raises:
        TraceError: the file is damaged, or lacks the name of a kernel or a call. Kernels without their names would
            be taken for one kernel, and calls for some that do not wait.
    """
    named = {
        device_tables.KERNEL: tables[device_tables.KERNEL]["demangledName"],
        call_tables.RUNTIME: tables[call_tables.RUNTIME]["nameId"],
        nvtx_table.NVTX: nvtx_table.range_name_ids(tables[nvtx_table.NVTX], inline),
        call_tables.OSRT: tables[call_tables.OSRT]["nameId"],
    }
    ids = distinct(np.concatenate([distinct(own) for own in named.values()]))
    strings = read_texts(export, ids)
    notes = []
    for table, own in named.items():
        lacking = [number for number in distinct(own).tolist() if number not in strings]
        if not lacking:
            continue
        rows = f"{int(np.isin(own, lacking).sum()):,} of {count(len(own), 'named row')}"
        what = f"lacks {count(len(lacking), 'name')} that {rows} of {table} refer to"
        if table == call_tables.OSRT:
            continue
        if table != nvtx_table.NVTX:
            raise TraceError(f"table StringIds of {export.path} {what}; {AGAIN}")
        notes.append(f"table StringIds {what}, so that these ranges have no names; {AGAIN}")
    return strings, tuple(notes)


def read_texts(export: Export, ids: npt.NDArray[Any]) -> dict[int, str]:
    """The texts with these ids, as far as the file holds them.

    Args:
        export: the file.
        ids: different ones.
    """
    if not export.has("StringIds", "id", "value"):
        return {}
    wanted = set(ids.tolist())
    if len(wanted) > IDS_AT_ONCE:
        rows = export.query("SELECT id, value FROM StringIds")
    else:
        marks = ", ".join("?" * len(wanted))
        rows = export.query(f"SELECT id, value FROM StringIds WHERE id IN ({marks})", *wanted)
    return {number: str(value) for number, value in rows if number in wanted and value is not None}
