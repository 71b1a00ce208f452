"""Stacks of Python in an export: marks with a binary payload that other tables describe."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pytest_nsight.analysis.python_lines import StackLines, label_places
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.collectors.nsys.scrub import scrub
from pytest_nsight.model.python_stacks import PythonPlace
from pytest_nsight.model.trace import Trace
from tests.trace.trace_builder import TraceBuilder

LOOP = ("step @ /home/me/train.py:12", "<module> @ /home/me/train.py:3")


def read_built(builder: TraceBuilder, tmp_path: Path) -> Trace:
    return read(builder.write(tmp_path / "trace.sqlite"))


def change(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    return path


def test_a_stack_has_its_time_its_thread_and_its_frames(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("a", 10, 20, api_at=5).python_stack(7, *LOOP, thread=103)
    stacks = read_built(builder.python_stack(5, LOOP[0], is_sample=False), tmp_path).python

    assert stacks.at_ns.tolist() == [7, 5]
    assert stacks.process.tolist() == [100, 100]
    assert stacks.thread.tolist() == [103, 100]
    assert stacks.is_sample.tolist() == [True, False]
    assert stacks.first.tolist() == [0, 2]
    assert [stacks.places[number] for number in stacks.place] == [
        PythonPlace("step", "/home/me/train.py", 12),
        PythonPlace("<module>", "/home/me/train.py", 3),
        PythonPlace("step", "/home/me/train.py", 12),
    ]


def test_an_export_without_payloads_has_no_stacks(tmp_path: Path) -> None:
    path = TraceBuilder().launch("a", 10, 20, api_at=5).python_stack(7, *LOOP).write(tmp_path / "trace.sqlite")

    assert not len(read(change(path, "UPDATE NVTX_EVENTS SET binaryData = NULL")).python)
    assert not len(read(change(path, "DROP TABLE NVTX_PAYLOAD_SCHEMAS")).python)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE NVTX_PAYLOAD_SCHEMA_ENTRIES SET offset = 20 WHERE name = 'Line'",
        "UPDATE NVTX_PAYLOAD_SCHEMA_ENTRIES SET name = 'Frame count' WHERE name = 'Frames count'",
        "DELETE FROM NVTX_PAYLOAD_SCHEMA_ENTRIES WHERE name = 'File'",
        "DROP TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES",
    ],
)
def test_stacks_of_another_form_count_for_nothing_and_a_note_says_so(statement: str, tmp_path: Path) -> None:
    path = TraceBuilder().launch("a", 10, 20, api_at=5).python_stack(7, *LOOP).write(tmp_path / "trace.sqlite")

    check_unread(read(change(path, statement)))


@pytest.mark.parametrize(
    "blob",
    [
        pytest.param("substr(binaryData, 1, 80)", id="a frame is missing"),
        pytest.param("substr(binaryData, 1, 44) || x'00000000'", id="no frame"),
        pytest.param("substr(binaryData, 1, 24) || x'ffffffffffffff7f' || substr(binaryData, 33)", id="beyond"),
        pytest.param("substr(binaryData, 1, 24) || x'0800000000000000' || substr(binaryData, 33)", id="before"),
        pytest.param("x'0200000000000000' || substr(binaryData, 9)", id="two payloads"),
        pytest.param("substr(binaryData, 1, 16) || x'1000000000000000' || substr(binaryData, 25)", id="too short"),
    ],
)
def test_a_damaged_stack_counts_for_nothing_and_a_note_says_so(blob: str, tmp_path: Path) -> None:
    path = TraceBuilder().launch("a", 10, 20, api_at=5).python_stack(7, *LOOP).write(tmp_path / "trace.sqlite")
    statement = f"UPDATE NVTX_EVENTS SET binaryData = CAST({blob} AS BLOB) WHERE binaryData NOT NULL"

    check_unread(read(change(path, statement)))


def check_unread(trace: Trace) -> None:
    assert not len(trace.python)
    (note,) = [text for text in trace.notes if "Python" in text]
    assert note.startswith("1 stack of Python has a form that this version of pytest-nsight does not know")


def test_payloads_of_others_are_left_alone(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("a", 10, 20, api_at=5).python_stack(7, *LOOP)
    for blob in (b"", b"short", b"x" * 33, b"\xff" * 64):
        builder.row("NVTX_EVENTS", start=8, eventType=34, globalTid=1 << 24, domainId=9, binaryData=blob)
    trace = read_built(builder, tmp_path)

    assert len(trace.python) == 1
    assert not [text for text in trace.notes if "Python" in text]


@pytest.mark.parametrize("domain", ["NCCL", ""])
def test_payloads_of_another_domain_that_share_a_number_are_no_stacks(domain: str, tmp_path: Path) -> None:
    """Each domain numbers the forms of its payloads itself."""
    builder = TraceBuilder().launch("a", 10, 20, api_at=5).python_stack(7, *LOOP).domain(domain)
    (blob,) = [row["binaryData"] for row in builder.rows["NVTX_EVENTS"] if row.get("binaryData")]
    assert isinstance(blob, bytes)
    for foreign in (blob, blob[:32] + b"secret " * 9):
        for task in (1 << 56 | 100 << 24 | 100, None):
            place = {"globalTid": task, "domainId": 2 if domain else 0}
            builder.row("NVTX_EVENTS", start=8, eventType=34, binaryData=foreign, **place)
    path = builder.write(tmp_path / "trace.sqlite")
    scrub(path, tmp_path / "scrubbed.sqlite")

    for trace in (read(path), read(tmp_path / "scrubbed.sqlite")):
        assert trace.python.at_ns.tolist() == [7]
        assert not [text for text in trace.notes if "Python" in text]
    assert b"secret" not in (tmp_path / "scrubbed.sqlite").read_bytes()


def test_two_processes_may_give_one_number_to_calls_and_to_samples(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("a", 10, 20, api_at=5).python_stack(7, *LOOP)
    builder.python_stack(8, *LOOP, is_sample=False, process=200)
    (sample,) = [row["binaryData"] for row in builder.rows["NVTX_EVENTS"] if row.get("start") == 7]
    builder.rows["NVTX_EVENTS"][-1]["binaryData"] = sample

    assert read_built(builder, tmp_path).python.is_sample.tolist() == [True, False]


def test_a_scrubbed_export_has_the_stacks_and_not_the_folders(tmp_path: Path) -> None:
    builder = TraceBuilder().launch("a", 10, 20, api_at=5)
    builder.python_stack(7, "call @ /home/me/.venv/lib/python3.12/site-packages/torch/nn/module.py:5", *LOOP)
    builder.row("NVTX_EVENTS", start=8, eventType=34, globalTid=1 << 24, domainId=9, binaryData=b"secret" * 9)
    path = builder.write(tmp_path / "trace.sqlite")
    scrub(path, tmp_path / "scrubbed.sqlite")
    stacks = read(tmp_path / "scrubbed.sqlite").python

    assert [stacks.places[number] for number in stacks.place] == [
        PythonPlace("call", "/lib/python3.12/site-packages/torch/nn/module.py", 5),
        PythonPlace("step", "train.py", 12),
        PythonPlace("<module>", "train.py", 3),
    ]
    content = (tmp_path / "scrubbed.sqlite").read_bytes()
    assert b"secret" not in content
    assert b"home" not in content


def test_the_standard_library_of_free_threaded_python_stays_one_once_it_is_scrubbed(tmp_path: Path) -> None:
    where = "/home/joe/python/lib/python3.14t/queue.py"
    path = (
        TraceBuilder()
        .launch("a", 10, 20, api_at=5)
        .python_stack(7, f"get @ {where}:3")
        .write(tmp_path / "a.sqlite")
    )
    scrub(path, tmp_path / "scrubbed.sqlite")

    assert [place.file for place in read(tmp_path / "scrubbed.sqlite").python.places] == [
        "/lib/python3.14t/queue.py"
    ]


def test_a_file_of_the_program_stays_its_own_though_it_is_named_like_a_compiler(tmp_path: Path) -> None:
    where = "/home/joe/torchinductor_bench.py"
    path = (
        TraceBuilder().launch("a", 10, 20, api_at=5).python_stack(7, f"f @ {where}:3").write(tmp_path / "a.sqlite")
    )
    scrub(path, tmp_path / "scrubbed.sqlite")

    assert [place.file for place in read(tmp_path / "scrubbed.sqlite").python.places] == ["torchinductor_bench.py"]


@pytest.mark.parametrize(
    ("file", "scrubbed"),
    [
        ("/tmp/torchinductor_joe/ab/cabc.py", "/torchinductor_/cabc.py"),
        ("/home/joe/run/torch_compile_debug/run_1/output_code.py", "/torch_compile_debug/output_code.py"),
        ("/home/joe/.triton/cache/AB12/launcher.py", "/.triton/launcher.py"),
    ],
)
def test_code_that_a_compiler_has_written_is_not_the_program_s_own_once_it_is_scrubbed(
    file: str, scrubbed: str, tmp_path: Path
) -> None:
    builder = TraceBuilder().launch("a", 10, 20, api_at=5).python_stack(7, f"call @ {file}:31", *LOOP)
    path = builder.write(tmp_path / "trace.sqlite")
    scrub(path, tmp_path / "scrubbed.sqlite")
    whole, rest = read(path), read(tmp_path / "scrubbed.sqlite")

    assert rest.python.places[rest.python.place[0]].file == scrubbed
    assert [trace.python.places[number].line for trace in (whole, rest) for number in name_stacks(trace)] == [
        12,
        12,
    ]
    assert b"joe" not in (tmp_path / "scrubbed.sqlite").read_bytes()


def name_stacks(trace: Trace) -> list[int]:
    """The places that name the stacks: those with the label of each."""
    lines, labels = StackLines.of(trace.python), label_places(trace.python.places)
    return [labels.index(lines.labels[number]) for number in lines.line.tolist()]
