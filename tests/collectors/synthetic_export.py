"""Exports of any size, written by SQLite itself: a training loop that launches kernels inside ranges."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.trace.trace_builder import HARDWARE, table_definitions

PROCESS = 4242
THREAD = 4243
KERNEL_NAMES = 40
FIRST_NAME_ID = 1000
FIRST_RANGE_NAME_ID = 2000
RANGE_NAMES = 100
API_NAME_ID = 1
PERIOD_NS = 5000
GENERATE = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)"


def write_synthetic_export(path: Path, *, kernels: int, ranges: int) -> Path:
    """An export with one API call for each kernel, and ranges that share the kernels evenly.

    Kernel i runs on the device from 5000 i + 3000 ns on, for 4000 ns and up to 100 more; its call begins at
    5000 i. It is one of 40 kernels with one of three grids. Ranges tile the host's time without a gap.

    Args:
        path: where to write.
        kernels: how many; a multiple of ranges.
        ranges: how many.
    """
    definitions = table_definitions("2025.3")
    task = HARDWARE | PROCESS << 24
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        for table in (
            "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "StringIds",
            "META_DATA_EXPORT",
        ):  # fmt: skip
            connection.execute(f"CREATE TABLE {table} ({definitions[table]})")
        connection.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_NAME', 'synthetic')")
        connection.execute("INSERT INTO StringIds VALUES (?, 'cudaLaunchKernel_v7000')", (API_NAME_ID,))
        for first, count, stem in (
            (FIRST_NAME_ID, KERNEL_NAMES, "kernel_of_layer_"),
            (FIRST_RANGE_NAME_ID, RANGE_NAMES, "case"),
        ):
            rows = [(first + number, f"{stem}{number}") for number in range(count)]
            connection.executemany("INSERT INTO StringIds VALUES (?, ?)", rows)
        connection.execute(
            f"{GENERATE} INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT {PERIOD_NS} * i + 3000, "
            f"{PERIOD_NS} * i + 7000 + i * 7919 % 100, 0, 1, NULL, 7 + i % 2, 3 * i + 100, {task}, "
            f"{FIRST_NAME_ID} + i % {KERNEL_NAMES}, {FIRST_NAME_ID} + i % {KERNEL_NAMES}, NULL, 1, 1, "
            "32 + i % 40, 1056 + i % 3, 1, 1, 256, 1, 1, 0, 1024 * (i % 2), NULL FROM n",
            (kernels,),
        )
        connection.execute(
            f"{GENERATE} INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT {PERIOD_NS} * i, "
            f"{PERIOD_NS} * i + 1500, 0, {task | THREAD}, 3 * i + 100, {API_NAME_ID}, 0, NULL FROM n",
            (kernels,),
        )
        length = kernels // ranges * PERIOD_NS
        connection.execute(
            "INSERT INTO NVTX_EVENTS (start, eventType, text, globalTid, domainId) VALUES "
            f"(0, 75, 'pytest_nsight', {task | THREAD}, 1)"
        )
        connection.execute(
            f"{GENERATE} INSERT INTO NVTX_EVENTS "
            "(start, end, eventType, globalTid, textId, domainId, int64Value) "
            f"SELECT {length} * i, {length} * (i + 1) - 1, 59, {task | THREAD}, "
            f"{FIRST_RANGE_NAME_ID} + i % {RANGE_NAMES}, 1, i FROM n",
            (ranges,),
        )
        connection.commit()
    return path
