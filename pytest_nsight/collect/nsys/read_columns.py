"""Integer columns of large tables straight into numpy arrays.

A row that passes through Python costs over a microsecond, most of it for making a tuple and its integers.
So SQLite itself joins each column of some ten thousand rows into one text, which numpy parses. Narrow columns
share a 63-bit word first. SQLite lets go of the interpreter's lock meanwhile, so that threads share the work.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_nsight.collect.nsys.read_file import AGAIN, Export, connect
from pytest_nsight.errors import TraceError

CHUNK_ROWS = 50_000
MOST_THREADS = 4
WORD_BITS = 63

Arrays = dict[str, npt.NDArray[np.signedinteger[Any]]]


class Column(NamedTuple):
    """One column to read.

    Attributes:
        source: its name in the table.
        bits: width that its values fit into unless they are odd; columns below WORD_BITS share words.
        default: what stands for NULL and for a missing column; None where neither may be.
        sql: what to read, with {} for the column.
        alias: name of the array, if not the column's.
    """

    source: str
    bits: int = WORD_BITS + 1
    default: int | None = None
    sql: str = "{}"
    alias: str = ""

    @property
    def name(self) -> str:
        """Name of the array."""
        return self.alias or self.source


def read_columns(export: Export, wanted: Mapping[str, Sequence[Column]]) -> dict[str, Arrays]:
    """Read columns of several tables.

    Args:
        export: the file.
        wanted: table -> columns. A table that the file lacks is read as one without rows.

    Returns:
        Table -> name of the column -> its values in order of the rows' ids, shape (rows,), int64, or int32
        where 31 bits suffice.

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
            table: [pool.submit(_read_chunk, export, table, columns, bounds) for bounds in _split(export, table)]
            for table, columns in present.items()
        }
        return {
            table: _concatenate([part.result() for part in parts.get(table, ())], columns)
            for table, columns in wanted.items()
        }


def _concatenate(parts: list[Arrays], columns: Sequence[Column]) -> Arrays:
    if not parts:
        return {column.name: np.empty(0, np.int64) for column in columns}
    # Popping frees each column's parts as soon as they are joined, which halves the peak of a large table.
    return {column.name: np.concatenate([part.pop(column.name) for part in parts]) for column in columns}


def _split(export: Export, table: str) -> list[tuple[int, int]]:
    """Spans of row ids, both ends included, of at most CHUNK_ROWS rows."""
    quoted = _quote(table)
    ((first, last),) = export.query(f"SELECT (SELECT min(rowid) FROM {quoted}), (SELECT max(rowid) FROM {quoted})")
    if first is None:
        return []
    ((count,),) = export.query(f"SELECT count(*) FROM {quoted}")
    if last - first < 4 * count + CHUNK_ROWS:
        starts = list(range(first, last + 1, CHUNK_ROWS))
    else:
        with connect(export.path) as connection:
            ids = connection.execute(f"SELECT rowid FROM {quoted} ORDER BY rowid")
            starts = np.fromiter(chain.from_iterable(ids), np.int64)[::CHUNK_ROWS].tolist()
    if not starts or starts[-1] > last:
        raise TraceError(
            f"table {table} of {export.path} is damaged: its rows are not where its index says; {AGAIN}"
        )
    return list(zip(starts, [start - 1 for start in starts[1:]] + [last], strict=True))


def _read_chunk(export: Export, table: str, columns: Sequence[Column], bounds: tuple[int, int]) -> Arrays:
    stored = {column: _stored(export, table, column) for column in columns}
    sources = {column.name: column.sql.format(stored[column]) for column in columns}
    fitting = f"count(CASE WHEN {_fit(stored)} THEN 1 END)"
    largest = f"max(max(-1, {', '.join(stored[column] for column in _once(columns))}))"
    words, is_packed = _pack(columns), True
    count, fits, *blobs = _select(export, table, bounds, [fitting, *_join_all(words, sources)])
    if fits < count:
        _, text = _select(export, table, bounds, [largest])
        if isinstance(text, str | bytes):
            raise TraceError(f"table {table} of {export.path} holds {text[:40]!r} for a number; {AGAIN}")
        words, is_packed = [(column,) for column in columns], False
        count, *blobs = _select(export, table, bounds, _join_all(words, sources))
    arrays: Arrays = {}
    for word, blob in zip(words, blobs, strict=True):
        values = np.fromstring(blob or b"", np.int64, sep=",")
        if len(values) != count:
            names = " or ".join(column.source for column in word)
            raise TraceError(f"table {table} of {export.path} has rows without {names}; {AGAIN}")
        arrays.update(_unpack(values, word, is_packed=is_packed))
    return arrays


def _select(export: Export, table: str, bounds: tuple[int, int], what: Sequence[str]) -> tuple[Any, ...]:
    """The number of rows, and some aggregates over them."""
    sql = f"SELECT {', '.join(['count(*)', *what])} FROM {_quote(table)} WHERE rowid BETWEEN ? AND ?"
    (row,) = export.query(sql, *bounds)
    return row


def _once(columns: Iterable[Column]) -> list[Column]:
    """Each column of the table once, by the first that reads it."""
    return list({column.source: column for column in reversed(list(columns))}.values())


def _fit(stored: Mapping[Column, str]) -> str:
    """An SQL condition: all values are numbers, and fit their bits."""
    terms = []
    for column in _once(stored):
        # Every text and blob is larger than every number.
        if column.bits < WORD_BITS and column.sql == "{}":
            terms.append(f"{stored[column]} BETWEEN 0 AND {(1 << column.bits) - 1}")
        else:
            terms.append(f"{stored[column]} <= {2**63 - 1}")
    return " AND ".join(terms)


def _unpack(values: npt.NDArray[np.int64], word: Sequence[Column], *, is_packed: bool) -> Arrays:
    """The columns of a word; only packed ones are known to fit a narrower type."""
    arrays: Arrays = {}
    for column in word:
        part = values & ((1 << column.bits) - 1) if len(word) > 1 else values
        arrays[column.name] = part.astype(np.int32) if is_packed and column.bits <= 31 else part
        if len(word) > 1:
            values = values >> column.bits
    return arrays


def _stored(export: Export, table: str, column: Column) -> str:
    """The column as SQL, with its default in place of what is missing."""
    if not export.has(table, column.source):
        return str(column.default)
    quoted = column.source if column.source == "rowid" else _quote(column.source)
    is_safe = column.default is None or export.tables[table][column.source]
    return quoted if is_safe else f"ifnull({quoted}, {column.default})"


def _pack(columns: Sequence[Column]) -> list[tuple[Column, ...]]:
    """Share words among narrow columns, widest first, each into the first word with room."""
    words: list[list[Column]] = []
    for column in sorted(columns, key=lambda c: -c.bits):
        fitting = (word for word in words if sum(c.bits for c in word) + column.bits <= WORD_BITS)
        word = next(fitting, None)
        if word is None:
            words.append([column])
        else:
            word.append(column)
    return [tuple(word) for word in words]


def _join_all(words: Sequence[Sequence[Column]], sources: Mapping[str, str]) -> list[str]:
    """SQL aggregates that give the words of all rows, separated by commas."""
    joined = []
    for word in words:
        shift, terms = 0, []
        for column in word:
            terms.append(f"(({sources[column.name]}) << {shift})" if shift else f"({sources[column.name]})")
            shift += column.bits
        # An operator even for one term: it makes an integer of whatever number it gets.
        joined.append(f"CAST(group_concat({' | '.join(terms)} | 0) AS BLOB)")
    return joined


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
