"""Columns come out of a database as they are in it, however their values are spread."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_nsight.collectors.nsys import columns as read_columns
from pytest_nsight.collectors.nsys.columns import Arrays, ExportColumn, process_ids, thread_ids
from pytest_nsight.collectors.nsys.open_export import open_export
from pytest_nsight.collectors.nsys.packed_columns import HIGHEST, LOWEST
from pytest_nsight.model.errors import TraceError

COLUMNS = (
    ExportColumn("a"),
    ExportColumn("b"),
    ExportColumn("c", -7),
    ExportColumn("missing", 5),
    ExportColumn("c", None, "{} IS NULL", "is_null"),
)


def read_rows(rows: Sequence[Sequence[object]], sample: int, chunk: int = 1000) -> Arrays:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.sqlite"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE t (a, b, c)")
            connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
            connection.commit()
        sizes = {"SAMPLE_ROWS": sample, "CHUNK_ROWS": chunk}
        with mock.patch.multiple(read_columns, **sizes):
            return read_columns.read_columns(open_export(path), {"t": COLUMNS})["t"]


def check(rows: Sequence[Sequence[int | None]], arrays: Arrays) -> None:
    assert arrays["a"].tolist() == [a for a, _, _ in rows]
    assert arrays["b"].tolist() == [b for _, b, _ in rows]
    assert arrays["c"].tolist() == [-7 if c is None else c for _, _, c in rows]
    assert arrays["missing"].tolist() == [5] * len(rows)
    assert arrays["is_null"].tolist() == [c is None for _, _, c in rows]


INTEGERS = st.one_of(st.integers(LOWEST, HIGHEST), st.integers(-3, 3), st.just(10**9))


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(INTEGERS, INTEGERS, st.none() | INTEGERS), min_size=1, max_size=30),
    st.sampled_from([3, 100]),
)
@example([(LOWEST, HIGHEST, None), (HIGHEST, LOWEST, 0)], 3)
@example([(LOWEST, 0, -1), (-1, 2**62, None)], 100)
def test_any_integers_arrive(rows, sample):
    """With or without a sample that gives their range, and even if it is wrong."""
    check(rows, read_rows(rows, sample, chunk=11))


def test_one_outlier_among_thousands_arrives():
    """A sample that cannot know of it must not let its bits spill into other columns."""
    for odd in (-1, 1, 2**20, -(2**40), HIGHEST):
        rows = [(at, 3, 0) for at in range(5000)]
        rows[3777] = (rows[3777][0], odd, odd)
        check(rows, read_rows(rows, 10, chunk=5000))


def test_close_values_far_from_zero_are_read():
    rows = [(2**62 + at, -(2**62) - at, None) for at in range(3000)]
    check(rows, read_rows(rows, 10))


@pytest.mark.parametrize(
    ("value", "words"), [(None, "rows without b"), ("x", "'x' for a number"), (b"\0", "for a number")]
)
@pytest.mark.parametrize("sample", [10, 5000])
def test_one_row_without_a_number_is_told(value, words, sample):
    rows: list[tuple[object, ...]] = [(at, 1, 0) for at in range(3000)]
    rows[1234] = (1, value, 0)
    with pytest.raises(TraceError, match=words):
        read_rows(rows, sample, chunk=3000)


def test_columns_are_as_narrow_as_their_values_allow():
    arrays = read_rows([(2**31 - 1, 2**31, -(2**31))], 10)
    assert [arrays[name].dtype for name in "abc"] == [np.int32, np.int64, np.int32]


def test_process_and_thread_are_parts_of_a_global_id():
    packed = np.array([0x7F << 56 | 4242 << 24 | 4243, -(1 << 56) | 1 << 24 | 0xFFFFFF], np.int64)
    assert process_ids(packed).tolist() == [4242, 1]
    assert thread_ids(packed).tolist() == [4243, 0xFFFFFF]
