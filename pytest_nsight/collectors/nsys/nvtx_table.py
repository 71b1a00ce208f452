"""The table of NVTX ranges and domains; a name stands in its own row, or is a registered string."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_nsight.collectors.nsys.columns import Arrays, ExportColumn, process_ids, split_rows, thread_ids
from pytest_nsight.collectors.nsys.open_export import Export, connect
from pytest_nsight.collectors.nsys.packed_columns import group_rows
from pytest_nsight.collectors.nsys.trace_texts import TraceTexts, number_ids
from pytest_nsight.model.trace import ANY_THREAD, Ints, Ranges

NVTX = "NVTX_EVENTS"

PUSH_POP, START_END, DOMAIN_CREATE = 59, 60, 75
"""Values of NVTX_EVENTS.eventType, the same from 2022.4 on."""

NO_TEXT = -1
PAYLOADS = ("int64Value", "uint64Value", "int32Value", "uint32Value")
NO_PAYLOAD = -1

DESCRIPTIONS = {
    "text": "names that stand in the rows of ranges",
    "textId": "registered names of ranges",
    "domainId": "domains of ranges",
}
"""Columns of NVTX_EVENTS that every version writes, and what is unknown without them."""

_NAMES_AT_ONCE = 2_000
"""Rows; a name may be as long as the traced program likes."""

COLUMNS: Mapping[str, Sequence[ExportColumn]] = {
    NVTX: (
        ExportColumn("rowid", default=0),
        ExportColumn("start"),
        ExportColumn("end", default=0),
        ExportColumn("end", None, "{} IS NULL", "is_open"),
        ExportColumn("eventType"),
        ExportColumn("textId", default=NO_TEXT),
        ExportColumn("domainId", default=0),
        ExportColumn("globalTid", 0),
        *(ExportColumn(name, default=NO_PAYLOAD) for name in PAYLOADS),
    ),
}


@dataclass(frozen=True, slots=True)
class InlineNames:
    """Names that NVTX_EVENTS holds itself; the others are registered strings.

    Attributes:
        rowid: rows that hold a name, shape (names,), ascending.
        names: the name of each.
    """

    rowid: Ints
    names: Sequence[str]

    def find(self, rowids: npt.NDArray[Any]) -> Ints:
        """For each row the position of its name, -1 where it holds none."""
        if not len(self.rowid):
            return np.full(len(rowids), -1, np.int64)
        places = np.minimum(np.searchsorted(self.rowid, rowids), len(self.rowid) - 1)
        return np.where(self.rowid[places] == rowids, places, -1)


def read_inline_names(export: Export) -> InlineNames:
    """The names that ranges and domains have in their own rows.

    Args:
        export: the file.

    Raises:
        TraceError: the file is damaged.
    """
    if not export.has(NVTX, "text", "eventType"):
        return InlineNames(np.zeros(0, np.int64), ())
    with connect(export.path) as connection:
        parts = [_read_names(connection, bounds) for bounds in split_rows(export, NVTX, _NAMES_AT_ONCE)]
    rowids = np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in parts)])
    return InlineNames(rowids, list(chain.from_iterable(names for _, names in parts)))


def _read_names(connection: sqlite3.Connection, bounds: tuple[int, int]) -> tuple[Ints, list[str]]:
    """Row ids between two bounds, and the names that these rows hold.

    SQLite joins them to two texts: a million rows take twice as long one by one.
    """
    chosen = (
        f"FROM {NVTX} WHERE rowid BETWEEN {bounds[0]} AND {bounds[1]} AND text IS NOT NULL "
        f"AND eventType IN ({PUSH_POP}, {START_END}, {DOMAIN_CREATE})"
    )
    joined = "CAST(group_concat(rowid) AS BLOB), CAST(group_concat(text, char(31)) AS BLOB)"
    ((count, ids, texts),) = connection.execute(f"SELECT count(*), {joined} {chosen}")
    names = texts.decode(errors="replace").split("\x1f") if count else []
    if len(names) != count:
        # A name contains the separator. A damaged row may hold a number.
        names = [str(text) for (text,) in connection.execute(f"SELECT text {chosen} ORDER BY rowid")]
    return np.fromstring(ids or b"", np.int64, sep=","), names


def range_name_ids(columns: Arrays, inline: InlineNames) -> npt.NDArray[Any]:
    """String ids of ranges and domains whose rows refer to a name and hold none, shape (rows,).

    Args:
        columns: of NVTX_EVENTS, as read.
        inline: names in the rows themselves.
    """
    is_named = np.isin(columns["eventType"], (PUSH_POP, START_END, DOMAIN_CREATE)) & (columns["textId"] != NO_TEXT)
    rows = np.flatnonzero(is_named)
    return columns["textId"][rows[inline.find(columns["rowid"][rows]) < 0]]


def build_ranges(columns: Arrays, inline: InlineNames, strings: Mapping[int, str], texts: TraceTexts) -> Ranges:
    """NVTX ranges; those that never ended provisionally end where they start.

    Args:
        columns: of NVTX_EVENTS, as read.
        inline: names in the rows themselves.
        strings: string id -> name.
        texts: where the names go.
    """
    kind = columns["eventType"]
    chosen = np.flatnonzero((kind == PUSH_POP) | (kind == START_END))
    picked = {name: column[chosen] for name, column in columns.items()}
    payload = np.full(len(chosen), NO_PAYLOAD, np.int64)
    for name in reversed(PAYLOADS):
        payload = np.where(picked[name] != NO_PAYLOAD, picked[name], payload)
    is_open = picked["is_open"] != 0
    return Ranges(
        start_ns=picked["start"].astype(np.int64),
        end_ns=np.where(is_open, picked["start"], picked["end"]).astype(np.int64),
        name=_number_names(picked, inline, strings, texts),
        domain=_number_domains(columns, picked, inline, strings, texts),
        payload=payload,
        process=process_ids(picked["globalTid"]),
        thread=np.where(picked["eventType"] == START_END, ANY_THREAD, thread_ids(picked["globalTid"])),
        is_open=is_open,
    )


def _number_names(
    rows: Arrays, inline: InlineNames, strings: Mapping[int, str], texts: TraceTexts
) -> npt.NDArray[np.int32]:
    numbers = number_ids(rows["textId"], strings, texts)
    places = inline.find(rows["rowid"])
    return np.where(places < 0, numbers, np.append(texts.add_all(inline.names), np.int32(0))[places])


def _number_domains(
    events: Arrays, rows: Arrays, inline: InlineNames, strings: Mapping[int, str], texts: TraceTexts
) -> npt.NDArray[np.int32]:
    """Each process numbers its domains itself; 0 is the default one, without a name."""
    names: dict[tuple[int, int], str] = {}
    processes = process_ids(events["globalTid"])
    created = np.flatnonzero(events["eventType"] == DOMAIN_CREATE)
    for at, place in zip(created.tolist(), inline.find(events["rowid"][created]).tolist(), strict=True):
        name = strings.get(int(events["textId"][at]), "") if place < 0 else inline.names[place]
        names[int(processes[at]), int(events["domainId"][at])] = name
        texts.add(name)
    process, domain = process_ids(rows["globalTid"]), rows["domainId"]
    codes, examples = group_rows([process, domain], len(domain))
    numbers = []
    for row in examples:
        number = int(domain[row])
        unknown = f"domain {number}" if number else ""
        numbers.append(texts.add(names.get((int(process[row]), number), unknown)))
    return np.asarray(numbers, np.int32)[codes]
