"""Integer columns of large tables, read straight into numpy arrays.

A row that passes through Python costs over a microsecond, most of it for making a tuple and its integers.
So SQLite itself joins some ten thousand rows into one text, which numpy parses. What costs most is then each
number of that text. So columns share 63-bit words: every value is written as its distance from about the lowest
of its neighbours, which takes few bits. SQLite releases the interpreter's lock meanwhile, so threads share the
work.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_nsight.collectors.nsys.open_export import AGAIN, Export, connect
from pytest_nsight.collectors.nsys.packed_columns import Field, Word, join_words, pack, unpack
from pytest_nsight.model.errors import TraceError

CHUNK_ROWS = 50_000
SAMPLE_ROWS = 1_000
MOST_THREADS = 4
_ROW_BYTES = 16
"""A row of any table takes more in the file."""
ID_BITS = 24
ID_MASK = (1 << ID_BITS) - 1

Arrays = dict[str, npt.NDArray[np.signedinteger[Any]]]


class ExportColumn(NamedTuple):
    """One column to read.

    Attributes:
        source: its name in the table.
        default: what stands for NULL and for a missing column; None where neither may be.
        sql: what to read, with {} for the column.
        alias: name of the array, if not the column's.
    """

    source: str
    default: int | None = None
    sql: str = "{}"
    alias: str = ""

    @property
    def name(self) -> str:
        """Name of the array."""
        return self.alias or self.source


def read_columns(export: Export, wanted: Mapping[str, Sequence[ExportColumn]]) -> dict[str, Arrays]:
    """The columns of several tables, as arrays.

    Args:
        export: the file.
        wanted: table -> columns. A table that the file lacks is read as one without rows.

    Returns:
        Table -> name of the column -> its values in order of the rows' ids, shape (rows,), int64, or int32
        where that suffices.

    Raises:
        TraceError: a needed column is missing, or holds something else than integers.
    """
    present = {table: tuple(columns) for table, columns in wanted.items() if export.has(table)}
    for table, columns in present.items():
        for column in columns:
            if column.default is None and not export.has(table, column.source):
                raise TraceError(f"table {table} of {export.path} has no column {column.source}; {AGAIN}")
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:
        parts = {
            table: [pool.submit(_read_chunk, export, table, columns, span) for span in split_rows(export, table)]
            for table, columns in present.items()
        }
        return {
            table: _concatenate([part.result() for part in parts.get(table, ())], columns)
            for table, columns in wanted.items()
        }


def split_rows(export: Export, table: str, most: int | None = None) -> list[tuple[int, int]]:
    """Spans of row ids, both ends included, that cover a table.

    Args:
        export: the file.
        table: one that it has.
        most: rows of one span, CHUNK_ROWS unless given.

    Raises:
        TraceError: the table is damaged.
    """
    most = most or CHUNK_ROWS
    quoted = _quote(table)
    ((first, last),) = export.query(f"SELECT (SELECT min(rowid) FROM {quoted}), (SELECT max(rowid) FROM {quoted})")
    if first is None:
        return []
    # To count the rows would read the whole table once more. Empty spans cost little, if there are few of them.
    if last - first < 4 * (export.path.stat().st_size // _ROW_BYTES) + most:
        starts = list(range(first, last + 1, most))
    else:
        with connect(export.path) as connection:
            ids = connection.execute(f"SELECT rowid FROM {quoted} ORDER BY rowid")
            starts = np.fromiter(chain.from_iterable(ids), np.int64)[::most].tolist()
    if not starts or starts[-1] > last:
        raise TraceError(
            f"table {table} of {export.path} is damaged: its rows are not where its index says; {AGAIN}"
        )
    return list(zip(starts, [start - 1 for start in starts[1:]] + [last], strict=True))


def process_ids(packed: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The process in nsys's global ids, which hold hardware, machine, process and thread in one number."""
    return packed.astype(np.int64, copy=False) >> ID_BITS & ID_MASK


def thread_ids(packed: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The thread in nsys's global ids."""
    return packed.astype(np.int64, copy=False) & ID_MASK


def _concatenate(parts: list[Arrays], columns: Sequence[ExportColumn]) -> Arrays:
    if not parts:
        return {column.name: np.empty(0, np.int64) for column in columns}
    # Popping frees each column's parts as soon as they are joined, which halves the peak of a large table.
    return {column.name: np.concatenate([part.pop(column.name) for part in parts]) for column in columns}


def _read_chunk(export: Export, table: str, columns: Sequence[ExportColumn], bounds: tuple[int, int]) -> Arrays:
    stored = {column: _stored(export, table, column) for column in columns}
    rows = _Rows(export, table, "rowid BETWEEN {} AND {}".format(*bounds))
    words = _pack_like_sample(rows, stored, bounds)
    fit = " AND ".join(field.condition for word in words for field in word)
    count, fits, *blobs = rows.select(f"count(CASE WHEN {fit} THEN 1 END)", *join_words(words))
    if fits < count:
        words = pack(_fields(rows, stored))
        count, largest, *blobs = rows.select(_largest(stored), *join_words(words))
        if isinstance(largest, str | bytes):
            raise TraceError(f"table {table} of {export.path} holds {largest[:40]!r} for a number; {AGAIN}")
    arrays: Arrays = {}
    for word, blob in zip(words, blobs, strict=True):
        values = np.fromstring(blob or b"", np.int64, sep=",")
        arrays.update(unpack(values, word))
    return arrays


class _Rows(NamedTuple):
    """Some rows of a table."""

    export: Export
    table: str
    condition: str

    def select(self, *what: str) -> tuple[Any, ...]:
        """The number of rows, and some aggregates over them."""
        sql = f"SELECT {', '.join(['count(*)', *what])} FROM {_quote(self.table)} WHERE {self.condition}"
        (row,) = self.export.query(sql)
        return row


def _pack_like_sample(rows: _Rows, stored: Mapping[ExportColumn, str], bounds: tuple[int, int]) -> list[Word]:
    """Words with room for twice the spread of a sample: finding every extreme takes as long as reading does."""
    first, last = bounds
    if last - first < SAMPLE_ROWS:
        return pack(_fields(rows, stored))
    # At random, since launches repeat with the period of a program's loop; seeded, so that each reading is alike.
    # Not sample(): row ids of a hostile file may be further apart than a range can be long.
    generator = random.Random(first)
    ids = {generator.randint(first, last) for _ in range(SAMPLE_ROWS - 2)}
    picked = ", ".join(map(str, sorted({first, *ids, last})))
    return pack(field.widen() for field in _fields(rows._replace(condition=f"rowid IN ({picked})"), stored))


def _fields(rows: _Rows, stored: Mapping[ExportColumn, str]) -> list[Field]:
    """Where the columns' values lie.

    Raises:
        TraceError: a row lacks a value that it needs.
    """
    sources = {column.name: column.sql.format(text) for column, text in stored.items()}
    count, *found = rows.select(*(f"min({sql}), max({sql}), count({sql})" for sql in sources.values()))
    fields = []
    for (name, sql), lowest, highest, known in zip(
        sources.items(), *(found[at::3] for at in range(3)), strict=True
    ):
        if known < count:
            raise TraceError(f"table {rows.table} of {rows.export.path} has rows without {name}; {AGAIN}")
        fields.append(Field.between(name, sql, lowest, highest))
    return fields


def _largest(stored: Mapping[ExportColumn, str]) -> str:
    """An SQL aggregate: a text or blob if any column holds one, for these are larger than every number."""
    return f"max(max(-1, {', '.join(text for column, text in stored.items() if column.sql == '{}')}))"


def _stored(export: Export, table: str, column: ExportColumn) -> str:
    """The column as SQL, with its default in place of what is missing."""
    if not export.has(table, column.source):
        return str(column.default)
    quoted = column.source if column.source == "rowid" else _quote(column.source)
    is_safe = column.default is None or export.tables[table][column.source]
    return quoted if is_safe else f"ifnull({quoted}, {column.default})"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
