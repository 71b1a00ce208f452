"""Reading exports: every vintage's schema, and whatever a damaged or hostile file may hold."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_nsight.collectors.nsys import columns as read_columns
from pytest_nsight.collectors.nsys import nvtx_table
from pytest_nsight.collectors.nsys.missing_records import explain_emptiness
from pytest_nsight.collectors.nsys.nvtx_table import InlineNames
from pytest_nsight.collectors.nsys.packed_columns import group_rows
from pytest_nsight.collectors.nsys.read import read, read_explained
from pytest_nsight.collectors.nsys.trace_texts import TraceTexts
from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.trace_devices import TraceDevice
from pytest_nsight.trace.measures import measure
from tests.collectors.synthetic_export import write_synthetic_export
from tests.trace.trace_builder import VINTAGES, TraceBuilder

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"


def small(vintage: str = "2025.3") -> TraceBuilder:
    trace = TraceBuilder(vintage).range("case", 0, 100, payload=3).launch("k", 10, 20, api_at=5)
    return trace.copy(20, 30, 64, api_at=15).memset(30, 31, 8, api_at=25).call("cudaDeviceSynchronize", 40, 45)


def alter(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


@pytest.mark.parametrize("vintage", VINTAGES)
def test_every_vintage_reads_alike(vintage, tmp_path):
    trace = read(small(vintage).write(tmp_path / "trace.sqlite"))
    assert trace.tool == f"NVIDIA Nsight Systems {vintage}.0.0"
    assert trace.epoch_ns == 1_700_000_000_000_000_000
    row = measure(trace).ranges.iloc[0]
    assert row[["id", "name", "launches", "copies", "copied_bytes", "sync_ns"]].tolist() == [3, "case", 1, 2, 72, 5]


def test_the_launch_configuration_arrives(tmp_path):
    builder = TraceBuilder().launch(
        "k", 10, 20, api_at=5, grid=(2**31 - 1, 65535, 3), block=(1024, 2, 64), registers=255, static_shared=48_000,
        dynamic_shared=200_000, device=7, stream=2**29, correlation=2**32 - 1,
    )  # fmt: skip
    trace = read(builder.write(tmp_path / "trace.sqlite"))
    (shape,) = trace.shapes
    assert (shape.kind, shape.name, shape.full_name) == ("kernel", "k", "k")
    assert (shape.grid, shape.block) == ((2**31 - 1, 65535, 3), (1024, 2, 64))
    assert (shape.registers, shape.shared_bytes) == (255, 248_000)
    launches = trace.launches
    assert (launches.device[0], launches.stream[0], launches.correlation[0]) == (7, 2**29, 2**32 - 1)


@pytest.mark.parametrize(
    "column", ["gridY", "blockX", "registersPerThread", "streamId", "deviceId", "correlationId"]
)
def test_values_wider_than_expected_are_read_in_full(column, tmp_path):
    """Narrow columns share a word while reading; a value that does not fit must not spill into its neighbour."""
    path = small().launch("other", 30, 40, api_at=35).write(tmp_path / "trace.sqlite")
    plain = read(path)
    alter(path, f"UPDATE {KERNELS} SET {column} = 1099511627776 + {column}")
    wide = read(path)
    value = {"gridY": lambda t: t.shapes[0].grid[1], "blockX": lambda t: t.shapes[0].block[0],
             "registersPerThread": lambda t: t.shapes[0].registers, "streamId": lambda t: int(t.launches.stream[0]),
             "correlationId": lambda t: int(t.launches.correlation[0])}  # fmt: skip
    if column in value:
        assert value[column](wide) == value[column](plain) + 2**40
    assert wide.launches.start_ns.tolist() == plain.launches.start_ns.tolist()
    assert [shape.name for shape in wide.shapes] == [shape.name for shape in plain.shapes]


@pytest.mark.slow
def test_rows_are_the_same_over_the_borders_of_chunks(tmp_path, monkeypatch):
    path = write_synthetic_export(tmp_path / "trace.sqlite", kernels=1000, ranges=100)
    whole = read(path)
    monkeypatch.setattr(read_columns, "CHUNK_ROWS", 7)
    cut = read(path)
    assert (
        cut.launches.start_ns.tolist() == whole.launches.start_ns.tolist() == [5000 * i + 3000 for i in range(1000)]
    )
    assert cut.launches.shape.tolist() == whole.launches.shape.tolist()
    assert measure(cut).ranges.equals(measure(whole).ranges)
    assert measure(cut).ranges["launches"].tolist() == [10] * 100


def test_row_ids_far_apart_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(read_columns, "CHUNK_ROWS", 2)
    builder = TraceBuilder()
    for at in range(7):
        builder.launch("k", at, at + 1, api_at=at)
    path = builder.write(tmp_path / "trace.sqlite")
    alter(path, f"UPDATE {KERNELS} SET rowid = rowid * rowid * 1000000000000000 - 5")
    assert read(path).launches.start_ns.tolist() == list(range(7))


@pytest.mark.parametrize("table", [KERNELS, "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "META_DATA_EXPORT"])
def test_a_missing_table_is_one_without_rows(table, tmp_path):
    path = alter(small().write(tmp_path / "trace.sqlite"), f"DROP TABLE {table}")
    trace = read(path)
    measure(trace, None)
    assert (len(trace.launches) == 2) == (table == KERNELS)


@pytest.mark.parametrize("table", [KERNELS, "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"])
def test_a_table_without_rows_is_read(table, tmp_path):
    path = alter(small().write(tmp_path / "trace.sqlite"), f"DELETE FROM {table}")
    trace = read(path)
    assert (len(trace.launches) == 2) == (table == KERNELS)
    assert measure(trace).ranges["name"].tolist() == ([] if table == "NVTX_EVENTS" else ["case"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DROP TABLE StringIds", "lacks 2 names that 3 of 3 named rows of CUPTI_ACTIVITY_KIND_KERNEL"),
        ("DELETE FROM StringIds", "lacks 2 names that 3 of 3 named rows of CUPTI_ACTIVITY_KIND_KERNEL"),
        ("ALTER TABLE StringIds RENAME COLUMN value TO text", "lacks 2 names"),
        ("DELETE FROM StringIds WHERE value = 'k'", "lacks 1 name that 1 of 3 named rows of CUPTI_ACTIVITY_KIND_K"),
        ("DELETE FROM StringIds WHERE value LIKE 'cudaDev%'", "1 name that 1 of 6 named rows of CUPTI_ACTIVITY"),
    ],
)  # fmt: skip
def test_an_export_that_lacks_names_is_refused_as_one_with_null_in_their_place(change, words, tmp_path):
    """Kernels of different unknown names would be one kernel, and no call would wait."""
    builder = small().launch("other", 50, 60, api_at=45).launch("other", 60, 70, api_at=46)
    builder.range("registered", 200, 210, is_registered=True)
    path = alter(builder.write(tmp_path / "trace.sqlite"), change)

    with pytest.raises(TraceError, match=words):
        read(path)


def test_ranges_that_lack_their_names_are_noted_and_keep_their_launches(tmp_path):
    builder = small().range("registered", 200, 210, is_registered=True)
    path = alter(builder.write(tmp_path / "trace.sqlite"), "DELETE FROM StringIds WHERE value = 'registered'")

    trace = read(path)

    assert measure(trace).ranges["name"].tolist() == ["case", ""]
    (note,) = (note for note in trace.notes if "StringIds" in note)
    assert note.startswith("table StringIds lacks 1 name that 1 of 1 named row of NVTX_EVENTS refer to, so that")


def test_a_string_that_is_null_is_no_name(tmp_path):
    path = alter(
        small().write(tmp_path / "trace.sqlite"),
        "ALTER TABLE StringIds RENAME TO old",
        "CREATE TABLE StringIds (id, value)",
        "INSERT INTO StringIds SELECT id, nullif(value, 'k') FROM old",
    )
    with pytest.raises(TraceError, match="lacks 1 name"):
        read(path)


def test_a_name_in_the_row_of_a_range_needs_no_string(tmp_path):
    path = alter(small().write(tmp_path / "trace.sqlite"), "UPDATE NVTX_EVENTS SET textId = 99999")
    assert measure(read(path)).ranges["name"].tolist() == ["case"]


@pytest.mark.parametrize("change", ["ALTER TABLE NVTX_EVENTS RENAME COLUMN globalTid TO zz",
                                    "UPDATE NVTX_EVENTS SET globalTid = NULL"])  # fmt: skip
def test_ranges_without_a_thread_are_noted(change, tmp_path):
    trace = read(alter(small().write(tmp_path / "trace.sqlite"), change))

    assert measure(trace).ranges["launches"].tolist() == [0]
    (note,) = [note for note in trace.notes if "globalTid" in note]
    assert note.startswith("1 range has no process and no thread (column globalTid of NVTX_EVENTS is missing or ")


@pytest.mark.parametrize(
    ("column", "lost"),
    [
        ("text", "names that stand in the rows of ranges"),
        ("textId", "registered names of ranges"),
        ("domainId", "domains of ranges"),
    ],
)
def test_ranges_without_a_name_or_a_domain_are_noted(column, lost, tmp_path):
    path = small().write(tmp_path / "trace.sqlite")
    whole = read(path).notes
    trace = read(alter(path, f"ALTER TABLE NVTX_EVENTS DROP COLUMN {column}"))

    assert not whole
    assert trace.notes[0].startswith(
        f"table NVTX_EVENTS has no column {column}, so that {lost} are unknown; export"
    )


def test_nullable_columns_may_be_null_or_missing(tmp_path):
    path = alter(
        small().write(tmp_path / "trace.sqlite"),
        f"UPDATE {KERNELS} SET correlationId = NULL, graphNodeId = NULL",
        f"ALTER TABLE {KERNELS} DROP COLUMN graphNodeId",
        "ALTER TABLE NVTX_EVENTS DROP COLUMN int64Value",
    )
    result = measure(read(path))
    assert result.ranges["id"].tolist() == [-1]
    assert [(one.name, one.count) for one in result.unattributed] == [("k", 1)]


def test_a_missing_column_that_is_needed_is_named(tmp_path):
    path = alter(small().write(tmp_path / "trace.sqlite"), f"ALTER TABLE {KERNELS} DROP COLUMN gridX")
    with pytest.raises(TraceError, match="no column gridX"):
        read(path)


def test_payloads_come_from_whichever_column_holds_them(tmp_path):
    builder = TraceBuilder()
    for number, column in enumerate(["int64Value", "uint64Value", "int32Value", "uint32Value"]):
        builder.range("case", number, 10)
        row = builder.rows["NVTX_EVENTS"][-1]
        row[column] = 70 + number
    assert measure(read(builder.write(tmp_path / "t.sqlite"))).ranges["id"].tolist() == [70, 71, 72, 73]


def test_a_call_that_is_recorded_twice_counts_once(tmp_path):
    """As exports with backtraces have it: `cudaMalloc` around `cudaMalloc_v3020`."""
    builder = TraceBuilder()
    for number, thread in enumerate([100, 101, 100], 1):
        at, link = 1000 * number, 7 if number < 3 else 8
        builder.launch("k", at + 900, at + 950, api_at=at, api_ns=60, thread=thread, correlation=link)
        builder.launch("k", at + 960, at + 970, api_at=at + 10, api_ns=40, thread=thread, correlation=link)
        builder.rows[KERNELS].pop()
        builder.rows[RUNTIME][-2]["nameId"] = builder.string("cudaLaunchKernel")
    # Alike, but of another function, or not inside.
    builder.launch("k", 5900, 5950, api_at=5000, api_ns=60, correlation=9)
    builder.launch("k", 5960, 5970, api_at=5010, api_ns=40, correlation=9, api="cuLaunchKernel")
    builder.launch("k", 6960, 6970, api_at=6000, api_ns=60, correlation=10)
    builder.launch("k", 6960, 6970, api_at=6020, api_ns=60, correlation=10)

    trace = read(builder.write(tmp_path / "trace.sqlite"))

    assert sorted(trace.calls.start_ns.tolist()) == [1000, 2000, 3000, 5000, 5010, 6000, 6020]
    assert [trace.strings[name] for name in trace.calls.name[:3]] == ["cudaLaunchKernel"] * 3


def test_registered_and_plain_names_arrive(tmp_path):
    names = ["plain", "äöü \N{ROCKET}", "'); DROP TABLE NVTX_EVENTS; --", "a\nb", "", "%s{}\\", "a\x1fb", ",\x1f"]
    builder = TraceBuilder()
    for at, name in enumerate(names):
        builder.range(name, 2 * at, 2 * at + 1).range(name, 2 * at + 1, 2 * at + 2, is_registered=True)
    path = builder.write(tmp_path / "trace.sqlite")
    assert measure(read(path)).ranges["name"].tolist() == [name for name in names for _ in range(2)]
    assert measure(read(path)).ranges["name"].tolist() == [name for name in names for _ in range(2)]


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_plain_names_are_the_same_over_the_borders_of_what_is_read_at_once(at_once, tmp_path, monkeypatch):
    names = ["", "a", "b\x1f", "\x1f\x1f", "", "", "c", "a"]
    builder = TraceBuilder()
    for at, name in enumerate(names):
        builder.range(name, 10 * at, 10 * at + 9)
    path = builder.write(tmp_path / "trace.sqlite")
    alter(path, "UPDATE NVTX_EVENTS SET rowid = 3 * rowid + 1000")
    monkeypatch.setattr(nvtx_table, "_NAMES_AT_ONCE", at_once)
    assert measure(read(path)).ranges["name"].tolist() == names


def test_more_names_than_an_sql_statement_takes_parameters_arrive(tmp_path):
    builder = TraceBuilder()
    for at in range(2000):
        builder.range(f"case{at}", at, at + 1, is_registered=True)
    assert measure(read(builder.write(tmp_path / "t.sqlite"))).ranges["name"].tolist() == [
        f"case{at}" for at in range(2000)
    ]


def test_reading_leaves_the_folder_as_it_was(tmp_path):
    path = small().write(tmp_path / "trace.sqlite")
    before = path.read_bytes()
    path.chmod(0o400)
    read(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["trace.sqlite"]


def test_a_path_with_odd_characters_is_read(tmp_path):
    folder = tmp_path / "a ?mode=rw#%41"
    folder.mkdir()
    assert len(read(small().write(folder / "trace.sqlite")).launches) == 3


def test_boards_are_told_by_process_where_the_export_can(tmp_path):
    builder = TraceBuilder().board("aaaa", "H200", process=7, ordinal=1)
    assert read(builder.write(tmp_path / "new.sqlite")).devices == (TraceDevice(7, 1, "GPU-aaaa", "H200"),)
    builder = TraceBuilder("2024.2").board("aaaa", "H200").board("bbbb", "H200")
    trace = read(builder.write(tmp_path / "old.sqlite"))
    assert trace.find_device(99, 1) == TraceDevice(None, 1, "GPU-bbbb", "H200")


def test_boards_without_a_uuid_keep_their_name(tmp_path):
    """As an export of 2022 lists them."""
    builder = TraceBuilder("2022.4")
    builder.definitions["TARGET_INFO_GPU"] = "vmId INTEGER NOT NULL, deviceId INTEGER NOT NULL, name TEXT"
    builder.row("TARGET_INFO_GPU", vmId=0, deviceId=0, name="RTX 3080")

    assert read(builder.write(tmp_path / "old.sqlite")).devices == (TraceDevice(None, 0, "", "RTX 3080"),)


def test_the_reason_of_an_empty_recording_is_told_once(tmp_path):
    builder = TraceBuilder().range("case", 0, 100)
    text = "CUDA profiling might have not been started correctly."
    builder.row("DIAGNOSTIC_EVENT", timestamp=1, timestampType=1, source=1, severity=3, text=text)
    trace = read_explained(builder.write(tmp_path / "trace.sqlite"))

    assert sum(text.rstrip(".") in note for note in trace.notes) == 1
    assert any("no CUDA activity" in note for note in trace.notes)


def test_warnings_of_the_tool_are_kept_and_its_chatter_is_not(tmp_path):
    builder = small().diagnostic("all is well", 1).diagnostic("CUDA profiling\nmight have failed", 2)
    trace = read(builder.write(tmp_path / "trace.sqlite"))
    assert trace.diagnostics == ("CUDA profiling might have failed",)


def test_what_is_said_of_a_helper_process_names_it(tmp_path):
    """Else a page full of kernels would end with "No CUDA events collected"."""
    builder = small()
    for process in (100, 739, 742):
        builder.diagnostic("No CUDA events collected.", process=process)
    trace = read(builder.diagnostic("driver too new", process=100).write(tmp_path / "trace.sqlite"))
    assert trace.diagnostics == ("No CUDA events collected. (process 739, 742)", "driver too new")
    alone = TraceBuilder().diagnostic("No CUDA events collected.", process=739)
    assert read(alone.write(tmp_path / "alone.sqlite")).diagnostics == ("No CUDA events collected.",)


def test_a_range_that_never_ended_lasts_to_the_end_and_is_told(tmp_path):
    trace = read(TraceBuilder().range("case", 0, None).launch("k", 10, 20, api_at=5).write(tmp_path / "t.sqlite"))
    row = measure(trace).ranges.iloc[0]
    assert (bool(row["is_open"]), row["end_ns"], row["launches"]) == (True, 20, 1)
    assert trace.notes[0].startswith("1 range never ended: the program was killed, or crashed, inside it")

    two = TraceBuilder().range("a", 0, None).range("b", 1, None).launch("k", 10, 20, api_at=5)
    assert read(two.write(tmp_path / "two.sqlite")).notes[0].startswith("2 ranges never ended")


def test_many_open_ranges_may_be_of_a_loop_that_numbers_them_and_never_pops(tmp_path):
    builder = TraceBuilder()
    for number in range(10):
        builder.range(f"step {number}", 10 * number, None)
    (note,) = read(builder.launch("k", 110, 120, api_at=105).write(tmp_path / "t.sqlite")).notes
    assert note == (
        "10 ranges never ended: the program was killed, or crashed, inside them or never ends them, as without "
        "nvtxRangePop"
    )


@pytest.mark.parametrize("is_pushed", [True, False])
def test_a_range_that_is_never_popped_in_a_loop_ends_where_the_next_one_begins(tmp_path, *, is_pushed):
    builder = TraceBuilder().range("main", 0, None, domain="app")
    for at in (100, 200, 300):
        builder.range("step", at, None, domain="app", is_pushed=is_pushed)
        builder.range("part", at + 10, at + 20, domain="app").launch("k", at + 30, at + 40, api_at=at + 15)
        builder.range("step", at + 50, at + 60, domain="other")
    builder.range("step", 250, None, domain="app", thread=101, is_pushed=True)

    trace = read(builder.write(tmp_path / "t.sqlite"))

    rows = zip(
        *(getattr(trace.ranges, name).tolist() for name in ("domain", "name", "start_ns", "end_ns", "is_open")),
        strict=True,
    )
    found = {(trace.strings[domain], trace.strings[name], start): ends for domain, name, start, *ends in rows}
    assert [found["app", "step", at] for at in (100, 200, 300)] == [[200, False], [300, False], [360, True]]
    assert [found["other", "step", at] for at in (150, 250, 350)] == [[at + 10, False] for at in (150, 250, 350)]
    assert found["app", "main", 0] == found["app", "step", 250] == [360, True]
    assert trace.notes[0].startswith("3 ranges never ended, nor did any other of the same name (step): ")
    assert trace.notes[1].startswith("2 ranges never ended: the program was killed")


def ends_of(trace, name):
    number = trace.strings.index(name)
    return trace.ranges.end_ns[trace.ranges.name == number].tolist()


def test_two_names_that_a_loop_never_pops_stay_one_inside_the_other(tmp_path):
    builder = TraceBuilder()
    for at in (100, 200, 300, 400):
        builder.range("forward", at, None, domain="app").range("backward", at + 50, None, domain="app")
        builder.launch("k", at + 60, at + 70, api_at=at + 55)

    trace = read(builder.write(tmp_path / "t.sqlite"))

    assert ends_of(trace, "forward") == ends_of(trace, "backward") == [200, 300, 400, 470]


def test_requests_in_flight_and_recursion_are_no_missing_pops(tmp_path):
    builder = TraceBuilder()
    for at in range(0, 2000, 100):
        builder.range("request", at, at + 350 if at < 1700 else None, domain="app", is_pushed=False)
    for depth in range(3):
        builder.range("visit", 10 + depth, 20 - depth, domain="app").range(
            "visit", 1000 + depth, None, domain="app"
        )
    builder.launch("k", 1990, 2000, api_at=1980)

    trace = read(builder.write(tmp_path / "t.sqlite"))

    assert ends_of(trace, "request")[-3:] == [2000, 2000, 2000]
    assert sorted(ends_of(trace, "visit"))[-3:] == [2000, 2000, 2000]
    assert trace.notes[0].startswith("6 ranges never ended: the program was killed")


def test_launches_that_end_before_they_start_have_no_length_and_are_told(tmp_path):
    trace = read(TraceBuilder().range("case", 0, 100).launch("k", 20, 10, api_at=5).write(tmp_path / "t.sqlite"))
    assert measure(trace).ranges["kernel_ns"].tolist() == [0]
    assert trace.notes[0] == f"1 row of {KERNELS} ends before it starts; its length counts as 0"


def test_a_graph_launch_that_failed_lacks_no_kernels(tmp_path):
    builder = small().call("cudaGraphLaunch_v10000", 50, 60, code=719)
    assert "cuda-graph-trace" not in " ".join(read(builder.write(tmp_path / "t.sqlite")).notes)


def test_graph_launches_without_kernels_are_told(tmp_path):
    """What nsys before 2024.2 records of a CUDA graph unless it is asked for its nodes."""
    builder = small("2022.4").call("cudaGraphLaunch_v10000", 50, 60)
    assert "1 launch of CUDA graphs left" in read(builder.write(tmp_path / "t.sqlite")).notes[0]
    assert not read(small().graph(50, 60, api_at=45).write(tmp_path / "seen.sqlite")).notes


@pytest.mark.parametrize(
    ("builder", "words"),
    [
        (TraceBuilder().range("case", 0, 100), ["no CUDA activity", "driver", "CUPTI", "doctor"]),
        (
            TraceBuilder().range("case", 0, 9).call("cudaMalloc", 1, 2).diagnostic("oh no"),
            ["1 call of CUDA but no kernel", "oh no"],
        ),
        (TraceBuilder().launch("k", 1, 2, api_at=0), ["no NVTX range", "--trace=cuda,nvtx"]),
        (TraceBuilder().domain("pytest_nsight").launch("k", 1, 2, api_at=0), ["0.2.12", "update nsys"]),
        (TraceBuilder().domain("My Dom").launch("k", 1, 2, api_at=0), ["domain 'My Dom'", "0.2.12", "update nsys"]),
    ],
)
def test_an_empty_recording_is_read_and_its_emptiness_explained(builder: TraceBuilder, words, tmp_path):
    sentence = explain_emptiness(read(builder.write(tmp_path / "trace.sqlite")))
    assert sentence is not None
    for word in words:
        assert word in sentence


def test_missing_ranges_of_a_domain_are_explained_beside_missing_kernels(tmp_path):
    kernels, domains = read_explained(TraceBuilder().domain("My Dom").write(tmp_path / "trace.sqlite")).notes
    assert kernels.startswith("the recording holds no CUDA activity")
    assert domains.startswith("NVTX ranges of the domain 'My Dom' are missing: the program opened none, or has")


def test_a_domain_without_ranges_beside_ranges_needs_no_explanation(tmp_path):
    builder = TraceBuilder().range("step", 0, 100, domain="").domain("NCCL").launch("k", 10, 20, api_at=5)
    assert explain_emptiness(read(builder.write(tmp_path / "trace.sqlite"))) is None


def test_a_full_recording_needs_no_explanation(tmp_path):
    assert explain_emptiness(read(small().write(tmp_path / "trace.sqlite"))) is None


def replace_bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(change(path.read_bytes())) and None


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.unlink(), "cannot be read"),
        (replace_bytes(lambda _: b""), "is empty"),
        (replace_bytes(lambda _: b"hello"), "no SQLite database"),
        (replace_bytes(lambda whole: bytes(len(whole))), "no SQLite database"),
        (replace_bytes(lambda whole: whole[:50]), "truncated"),
        (replace_bytes(lambda whole: whole[: len(whole) // 2]), "truncated"),
        (replace_bytes(lambda whole: whole[:100] + bytes(len(whole) - 100)), "damaged"),
        (lambda path: alter(path, *[f"DROP TABLE {t}" for t in ("NVTX_EVENTS", "StringIds", "META_DATA_EXPORT")]),
         "no export of Nsight Systems"),
        (lambda path: alter(path, f"UPDATE {KERNELS} SET start = 'soon'"), "'soon' for a number"),
        (lambda path: alter(path, f"UPDATE {KERNELS} SET gridX = x'00ff'"), "for a number"),
        (lambda path: alter(path, "UPDATE NVTX_EVENTS SET globalTid = 'me'"), "'me' for a number"),
        (lambda path: alter(path, f"UPDATE {KERNELS} SET end = 9223372036854775807"), "as a time"),
        (lambda path: alter(path, f"UPDATE {KERNELS} SET end = 9223372036854775808"), "as a time"),
        (lambda path: alter(path, f"UPDATE {KERNELS} SET start = -9223372036854775808"), "as a time"),
        (lambda path: alter(path, "UPDATE NVTX_EVENTS SET start = 9e300"), "as a time"),
        (lambda path: alter(path, "ALTER TABLE StringIds RENAME TO old", "CREATE TABLE StringIds (id, value)",
                            f"DROP TABLE {KERNELS}", f"CREATE TABLE {KERNELS} (start)"), "no column"),
    ],
)  # fmt: skip
def test_damage_is_told_in_one_sentence_with_a_remedy(damage, words, tmp_path):
    path = small().write(tmp_path / "trace.sqlite")
    damage(path)
    with pytest.raises(TraceError, match=words) as raised:
        read(path)
    message = str(raised.value)
    assert str(path) in message
    assert "\n" not in message
    assert "export" in message


def test_a_million_characters_of_name_are_kept(tmp_path):
    name = "void f<" + "x" * 1_000_000 + ">(int)"
    trace = read(TraceBuilder().range(name, 0, 100).launch(name, 10, 20, api_at=5).write(tmp_path / "t.sqlite"))
    assert trace.shapes[0].full_name == name
    assert measure(trace).ranges["name"].tolist() == [name]


def test_names_that_are_no_text_are_read(tmp_path):
    path = alter(
        small().write(tmp_path / "t.sqlite"),
        "UPDATE StringIds SET value = x'ff00fe'",
        "UPDATE NVTX_EVENTS SET text = 5 WHERE eventType = 59",
    )
    assert measure(read(path)).ranges["launches"].tolist() == [1]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_overwritten_bytes_give_a_trace_or_a_trace_error(data):
    with tempfile.TemporaryDirectory() as folder:
        path = small().write(Path(folder) / "trace.sqlite")
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 30))):
            # The head of a page steers SQLite; most of its middle is empty here.
            page = data.draw(st.integers(0, len(content) // 4096 - 1)) * 4096
            offset = data.draw(st.one_of(st.integers(0, 120), st.integers(3500, 4095)))
            content[page + offset] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        try:
            trace = read(path)
        except TraceError:
            return
        result = measure(trace, None)
        assert len(result.ranges) == len(trace.ranges)
        assert sum(s.count for s in result.unattributed) <= len(trace.launches)


GROUPED = st.one_of(st.integers(-2, 2), st.sampled_from([-(2**63), -1, 40, 2**62, 2**63 - 1]))


@given(st.lists(st.tuples(st.integers(0, 2), GROUPED, GROUPED), max_size=30))
def test_rows_are_grouped_exactly_when_equal_and_numbered_by_their_first(rows):
    columns = [np.array([row[at] for row in rows], np.int64) for at in range(3)]
    codes, examples = group_rows(columns, len(rows))
    firsts = list(dict.fromkeys(rows))
    assert codes.tolist() == [firsts.index(row) for row in rows]
    assert examples.tolist() == [rows.index(first) for first in firsts]


def test_texts_are_numbered_once_in_order_of_their_first_use():
    texts = TraceTexts()

    assert texts.add("known") == 0
    assert texts.add_all(["a", "b"]).tolist() == [1, 2]
    assert texts.add_all(["c", "a", "c", "known", "d"]).tolist() == [3, 1, 3, 0, 4]
    assert texts.add_all([]).tolist() == []
    assert texts.texts == ("known", "a", "b", "c", "d")


def test_rows_without_a_name_of_their_own_have_none():
    names = InlineNames(np.array([2, 5, 9]), ["two", "five", "nine"])

    assert names.find(np.array([9, 1, 2, 3, 10, 5])).tolist() == [2, -1, 0, -1, -1, 1]
    assert InlineNames(np.zeros(0, np.int64), ()).find(np.array([1, 2])).tolist() == [-1, -1]


def test_launches_whose_kernels_are_missing_are_told_beside_copies(tmp_path: Path) -> None:
    trace = TraceBuilder().range("a", 0, 100).copy(50, 60, 8, api_at=10).call("cudaLaunchKernel_v7000", 20, 22)
    trace.call("cudaLaunchHostFunc_v10000", 30, 32)
    (note,) = read(trace.write(tmp_path / "t.sqlite")).notes

    assert note.startswith("the recording holds 1 launch, and copies, but no kernel")
    assert read(trace.launch("k", 70, 80, api_at=40).write(tmp_path / "t.sqlite")).notes == ()


LOST = "Not all {} events might have been collected."
DRIVER = (
    "Installed CUDA driver version (13.3) is not supported by this build of Nsight Systems. CUDA trace will be ..."
)


@pytest.mark.parametrize(
    ("diagnostics", "words"),
    [
        ([LOST.format("NVTX"), LOST.format("CUDA")], "the last CUDA records are missing"),
        ([LOST.format("NVTX"), LOST.format("CUDA"), DRIVER], "the driver, 13.3, is newer than this version"),
        ([DRIVER, "No NVTX events collected. Does the process use NVTX?"], "the driver, 13.3, is newer than"),
        (["Something about CUDA.", "Something else."], 'nsys says "Something about CUDA."'),
    ],
)
def test_missing_kernels_are_explained_by_what_nsys_says_of_cuda(
    diagnostics: list[str], words: str, tmp_path: Path
) -> None:
    trace = TraceBuilder().call("cuInit", 0, 10)
    for text in diagnostics:
        trace.diagnostic(text)
    explanation = read_explained(trace.write(tmp_path / "t.sqlite")).notes[-1]

    assert explanation.startswith("the recording holds 1 call of CUDA but no kernel")
    assert words in explanation
    assert "NVTX records" not in explanation


def test_a_driver_that_is_too_new_is_no_damage_where_kernels_were_recorded(tmp_path: Path) -> None:
    trace = TraceBuilder().range("a", 0, 9).launch("k", 3, 4, api_at=1).diagnostic(DRIVER)

    assert read_explained(trace.write(tmp_path / "t.sqlite")).notes == ()


def test_a_note_names_launches_copies_and_waits_that_failed(tmp_path):
    builder = small().call("cudaLaunchKernel_v7000", 50, 60, code=9).call("cudaLaunchKernel_v7000", 60, 70, code=9)
    builder.call("cudaMemcpyAsync_v3020", 70, 80, code=999)
    # These are part of how programs work.
    builder.call("cudaEventQuery_v3020", 80, 90, code=600).call("cuMemCreate", 90, 95, code=800)
    builder.call("cudaStreamSynchronize_v3020", 95, 99)
    (note,) = [text for text in read(builder.write(tmp_path / "r.sqlite")).notes if "failed" in text]

    assert note == (
        "3 calls of CUDA failed: cudaLaunchKernel 2 times with error 9 (invalid configuration), "
        "cudaMemcpyAsync 1 time with error 999; what they were to do is not in the recording"
    )


def test_without_failed_calls_there_is_no_note_on_them(tmp_path):
    builder = small().call("cudaEventQuery_v3020", 50, 60, code=600)

    assert not [text for text in read(builder.write(tmp_path / "r.sqlite")).notes if "failed" in text]
