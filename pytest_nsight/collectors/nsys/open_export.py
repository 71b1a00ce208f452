"""An opened export: checked to be what it claims to be, with the names of its tables and columns."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pytest_nsight.collectors.nsys.known_errors import quote
from pytest_nsight.model.errors import TraceError
from pytest_nsight.processes.regular_files import check_regular

MAGIC = b"SQLite format 3\x00"
HEADER_BYTES = 100
_STEPS, _STEPS_PER_BYTE, _STEPS_AT_ONCE = 20_000_000, 50, 100_000
"""Instructions of SQLite's machine for one connection; reading takes about 5 for each byte."""

AGAIN = "export the report again with `nsys export --type sqlite`"


@dataclass(frozen=True, slots=True)
class Export:
    """An SQLite export of Nsight Systems.

    Attributes:
        path: the file.
        tables: table name -> column name -> whether the column is declared never to be NULL. Tables without
            rows may be absent, and which columns exist depends on the version that wrote the file.
    """

    path: Path
    tables: Mapping[str, Mapping[str, bool]]

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table exists, and these columns in it."""
        return table in self.tables and all(column in self.tables[table] for column in columns)

    def query(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """All rows of a small query.

        Raises:
            TraceError: the file is damaged.
        """
        with connect(self.path) as connection:
            return connection.execute(sql, parameters).fetchall()


def open_export(path: Path) -> Export:
    """The export in a file, checked, with its tables and columns.

    Args:
        path: the file.

    Raises:
        TraceError: it is missing, not an SQLite database, or cut short.
    """
    check_regular(path, follows_links=True)
    _check_header(path)
    with connect(path) as connection:
        names = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if isinstance(name, str)
        ]
        columns = 'SELECT name, "notnull" FROM pragma_table_info(?)'
        tables = {
            name: {"rowid": True}
            | {column: bool(never_null) for column, never_null in connection.execute(columns, (name,))}
            for name in names
        }
    return Export(path, tables)


@contextmanager
def connect(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection that leaves no lock or journal beside the file.

    Args:
        path: the file.

    Raises:
        TraceError: in place of every error of SQLite.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            # Names come from the traced program: any bytes may be in them.
            connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            # Nothing that the file's schema defines is run.
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.set_progress_handler(_count_down(path.stat().st_size), _STEPS_AT_ONCE)
            yield connection
    except (sqlite3.Error, ValueError, OverflowError, MemoryError) as error:
        # ValueError: SQLite's own messages and declarations are decoded, too, and may be garbage.
        raise TraceError(f"{path} is a damaged SQLite export ({quote(str(error))}); {AGAIN}") from error


def _count_down(size_bytes: int) -> Callable[[], bool]:
    """A function that says when SQLite has worked longer than a file of this size takes.

    Pages of a hostile file may lead to one another in a circle, or all to the same one.
    """
    left = (_STEPS + _STEPS_PER_BYTE * size_bytes) // _STEPS_AT_ONCE

    def is_over() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    return is_over


def _check_header(path: Path) -> None:
    """Refuses what SQLite would misread or read only in part."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
    except OSError as error:
        raise TraceError(f"{path} cannot be read ({error.strerror}); give the path of an .sqlite export") from error
    if not size:
        raise TraceError(f"{path} is empty: the export did not finish; {AGAIN}")
    if not header.startswith(MAGIC):
        raise TraceError(f"{path} is no SQLite database: it begins with {header[:16]!r}; {AGAIN}")
    page_bytes = int.from_bytes(header[16:18], "big")
    expected = int.from_bytes(header[28:32], "big") * (65536 if page_bytes == 1 else page_bytes)
    is_length_valid = header[24:28] == header[92:96]
    if len(header) < HEADER_BYTES or (is_length_valid and size < expected):
        raise TraceError(f"{path} is truncated: {size} of {expected} bytes; {AGAIN}")
