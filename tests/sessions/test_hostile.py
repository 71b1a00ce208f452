"""Damaged and hostile exports through the command line: a page or one clear sentence, and never a traceback."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nsight.cli import main
from tests.trace.trace_builder import TraceBuilder

pytestmark = pytest.mark.slow

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
MEMORY_BYTES = 3 * 2**30
"""Address space of a process that shows an export of a few kilobytes; numpy's libraries alone map one."""


def small() -> TraceBuilder:
    trace = TraceBuilder().board("aaaa", "H200", process=100).range("case", 0, 100, payload=3)
    trace.launch("k", 10, 20, api_at=5).copy(20, 30, 64, api_at=15).memset(30, 31, 8, api_at=25)
    trace.node_made(1, 1).graph_nodes([("n", 40, 45)], api_at=35)
    return trace.call("cudaDeviceSynchronize", 40, 45).diagnostic("careful")


def show(path: Path) -> tuple[int, str, str]:
    """Exit code and what was written, of `pytest-nsight show` in this process."""
    out, err = TextIOWrapper(BytesIO(), "utf-8"), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["show", str(path)])
    out.seek(0)
    return code, out.read(), err.getvalue()


def check_refusal(path: Path, *words: str) -> None:
    code, out, err = show(path)
    assert (code, out) == (2, "")
    assert err.startswith("pytest-nsight: ")
    assert err.count("\n") == 1
    for word in (path.name, *words):
        assert word in err


def change(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return small().write(tmp_path / "t.sqlite")


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.9, 0.99])
def test_a_truncated_export_is_refused(export, share):
    whole = export.read_bytes()
    export.write_bytes(whole[: int(share * len(whole))])
    check_refusal(export, "truncated")


@pytest.mark.parametrize(
    "content", [b"", bytes(5000), b"PK\3\4zip", "no SQLite".encode("utf-16"), b"SQLite format 3\0"]
)
def test_what_is_not_sqlite_is_refused(export, content):
    export.write_bytes(content)
    check_refusal(export)


def test_another_program_s_database_is_refused(export):
    export.unlink()
    check_refusal(change(export, "CREATE TABLE users (id INTEGER, name TEXT)"), "no export of Nsight Systems")


@pytest.mark.parametrize(
    "value", ["'soon'", "x'00'", "1e300", "9223372036854775807", "-9223372036854775808", "1e19"]
)
@pytest.mark.parametrize(
    "place", [(KERNELS, "start"), (KERNELS, "end"), (RUNTIME, "end"), ("NVTX_EVENTS", "start")]
)
def test_times_that_are_none_are_refused(export, value, place):
    table, column = place
    check_refusal(change(export, f"UPDATE {table} SET {column} = {value}"), table)


@pytest.mark.parametrize("column", ["deviceId", "gridX", "demangledName", "registersPerThread"])
@pytest.mark.parametrize("value", ["'four'", "x'ff'"])
def test_columns_of_other_types_are_refused(export, column, value):
    check_refusal(change(export, f"UPDATE {KERNELS} SET {column} = {value}"), KERNELS, "for a number")


@pytest.mark.parametrize("size", ["-1", "1000000000000000000"])
@pytest.mark.parametrize("table", ["CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"])
def test_copies_of_impossible_sizes_are_refused(export, table, size):
    check_refusal(change(export, f"UPDATE {table} SET bytes = {size}"), table, f"a copy of {size} bytes")


def test_times_whose_sums_would_overflow_are_refused(tmp_path):
    trace, far = TraceBuilder().range("case", 0, 100), 2**62 - 1
    for number in range(4):
        trace.launch("k", -far, far, api_at=number).copy(-far, far, 64, api_at=10 + number)
    code, _, error = show(trace.write(tmp_path / "t.sqlite"))

    assert code == 2
    assert "more than its times can be" in error


def test_negative_lengths_and_times_are_shown_and_told(tmp_path):
    trace = TraceBuilder().range("back", 90, -50).range("early", -100, -10).launch("k", -20, -60, api_at=-70)
    code, out, _ = show(trace.write(tmp_path / "t.sqlite"))
    assert code == 0
    assert "1 row of CUPTI_ACTIVITY_KIND_KERNEL ends before it starts" in out


def test_ranges_that_cross_in_a_circle_are_shown(tmp_path):
    """Each begins inside the one before and ends after it, the last around to the first; and some are the same."""
    trace = TraceBuilder()
    for number in range(50):
        trace.range(f"r{number}", 10 * number, 10 * (number + 30) % 500, domain="app", thread=1 + number % 3)
        trace.launch("k", 10 * number + 1, 10 * number + 5, api_at=10 * number, thread=1 + number % 2)
    code, out, _ = show(trace.write(tmp_path / "t.sqlite"))
    assert code == 0
    assert "Kernels: 50 launches" in out


def test_graph_nodes_that_are_each_other_s_originals_are_shown(export):
    change(export, "UPDATE CUDA_GRAPH_NODE_EVENTS SET originalGraphNodeId = graphNodeId")
    assert show(export)[0] == 0


@pytest.mark.slow
def test_names_of_a_million_characters_fit_the_page(tmp_path):
    name = "void f<" + "x" * 1_000_000 + ">(int)"
    trace = TraceBuilder().range(name, 0, 100).launch(name, 10, 20, api_at=5).launch("y" * 1_000_000, 30, 40)
    code, out, _ = show(trace.write(tmp_path / "t.sqlite"))
    assert code == 0
    assert max(map(len, out.splitlines())) <= 160


def test_sql_in_names_stays_a_name(tmp_path):
    name = "'); DROP TABLE NVTX_EVENTS; --"
    path = (
        TraceBuilder().range(name, 0, 100, domain=name).launch(name, 10, 20, api_at=5).write(tmp_path / "t.sqlite")
    )
    before = path.read_bytes()
    code, out, _ = show(path)
    assert code == 0
    assert out.count("DROP TABLE") >= 2
    assert path.read_bytes() == before


def test_tables_with_sql_in_their_names_are_left_alone(export):
    change(export, 'CREATE TABLE "x""; DROP TABLE StringIds; --" ("start""; --" INTEGER)')
    assert show(export)[0] == 0


ENDLESS = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, 'x' AS value FROM n"
GIGABYTES = "id INTEGER, value TEXT AS (hex(zeroblob(400000000)))"
TRAPS = {
    "a view that never ends": ("DROP TABLE StringIds", f"CREATE VIEW StringIds AS {ENDLESS}"),
    "a column that makes gigabytes": (
        "DROP TABLE StringIds",
        f"CREATE TABLE StringIds ({GIGABYTES})",
        "INSERT INTO StringIds (id) VALUES (1), (2), (3)",
    ),
    "row ids at both ends of the numbers": (
        f"UPDATE {KERNELS} SET rowid = 9223372036854775807 WHERE rowid = 1",
        f"UPDATE {KERNELS} SET rowid = -9223372036854775808 WHERE rowid = 2",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
def test_a_small_file_takes_little_memory_and_time(export, trap):
    change(export, *trap)
    call = "import sys; from pytest_nsight.cli import main; sys.exit(main(['show', sys.argv[1]]))"
    done = subprocess.run(
        [sys.executable, "-c", call, str(export)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
        env={"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 1


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_overwritten_bytes_give_a_page_or_a_sentence(data):
    with tempfile.TemporaryDirectory() as folder:
        path = small().write(Path(folder) / "t.sqlite")
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 20))):
            page = data.draw(st.integers(0, len(content) // 4096 - 1)) * 4096
            # The head of a page steers SQLite, and rows are written from its end.
            offset = data.draw(st.one_of(st.integers(0, 120), st.integers(3500, 4095)))
            content[page + offset] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        code, out, err = show(path)
    assert code in (0, 2)
    assert bool(out) == (code == 0)
    assert err.count("\n") == (code == 2)
