"""The tables of calls on the host: those of the CUDA API, and those of the operating system's libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pytest_nsight.collectors.nsys.columns import Arrays, ExportColumn, process_ids, thread_ids
from pytest_nsight.collectors.nsys.packed_columns import group_rows
from pytest_nsight.collectors.nsys.trace_texts import TraceTexts, number_ids
from pytest_nsight.model.api_calls import function_name
from pytest_nsight.model.trace import Calls

RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
OSRT = "OSRT_API"

CHAIN, NO_CHAIN = "callchainId", -1

COLUMNS: Mapping[str, Sequence[ExportColumn]] = {
    RUNTIME: (
        ExportColumn("start"),
        ExportColumn("end"),
        ExportColumn("correlationId", 0),
        ExportColumn("nameId"),
        ExportColumn("globalTid", 0),
        ExportColumn("returnValue", 0),
        ExportColumn(CHAIN, NO_CHAIN),
    ),
    OSRT: (
        ExportColumn("start"),
        ExportColumn("end", 0),
        ExportColumn("nameId", 0),
        ExportColumn("globalTid", 0),
        ExportColumn("nestingLevel", 0),
    ),
}


def build_calls(columns: Arrays, strings: Mapping[int, str], texts: TraceTexts) -> Calls:
    """Calls of the CUDA API.

    Args:
        columns: of the runtime table, without doubles; nsys keeps the driver's calls there as well.
        strings: string id -> name.
        texts: where the names go.
    """
    return Calls(
        start_ns=columns["start"].astype(np.int64, copy=False),
        end_ns=columns["end"].astype(np.int64, copy=False),
        name=number_ids(columns["nameId"], strings, texts),
        process=process_ids(columns["globalTid"]),
        thread=thread_ids(columns["globalTid"]),
        # What failed launched nothing.
        correlation=np.where(columns["returnValue"] == 0, columns["correlationId"], 0).astype(np.int64, copy=False),
    )


def build_os_calls(columns: Arrays, strings: Mapping[int, str], texts: TraceTexts) -> Calls:
    """Calls of the operating system's libraries (`--trace=osrt`), without those inside another one.

    Args:
        columns: of the table, as read.
        strings: string id -> name.
        texts: where the names go.
    """
    outer = columns["nestingLevel"] == 0
    columns = {name: column[outer] for name, column in columns.items()}
    return Calls(
        start_ns=columns["start"].astype(np.int64, copy=False),
        end_ns=columns["end"].astype(np.int64, copy=False),
        name=number_ids(columns["nameId"], strings, texts),
        process=process_ids(columns["globalTid"]),
        thread=thread_ids(columns["globalTid"]),
        correlation=np.zeros(len(columns["start"]), np.int64),
    )


def drop_doubles(columns: Arrays, strings: Mapping[int, str]) -> Arrays:
    """The calls that lie inside no other record of themselves.

    Args:
        columns: of the runtime table, as read.
        strings: string id -> name.
    """
    doubles = _flag_doubles(columns, strings)
    return {name: column[~doubles] for name, column in columns.items()} if doubles.any() else columns


def _flag_doubles(columns: Arrays, strings: Mapping[int, str]) -> npt.NDArray[np.bool_]:
    """Calls that lie inside another record of themselves: same thread, same correlation, same function.

    A call that has a backtrace is in the export twice: as `cudaMalloc`, with the backtrace, and as
    `cudaMalloc_v3020`, some 500 ns shorter.
    """
    correlation, start_ns, end_ns = columns["correlationId"], columns["start"], columns["end"]
    doubles = np.zeros(len(correlation), np.bool_)
    if (np.diff(correlation) > 0).all():
        return doubles
    order = np.lexsort((-end_ns.astype(np.int64), start_ns, columns["globalTid"], correlation))
    outer, inner = order[:-1], order[1:]
    is_inside = (correlation[inner] > 0) & (end_ns[inner] <= end_ns[outer])
    for one in (correlation, columns["globalTid"]):
        is_inside &= one[outer] == one[inner]
    codes, examples = group_rows([columns["nameId"]], len(correlation))
    names = [function_name(strings.get(int(columns["nameId"][row]), "")) for row in examples]
    functions = np.array([names.index(name) for name in names], np.int64)[codes]
    doubles[inner[is_inside & (functions[outer] == functions[inner])]] = True
    return doubles
