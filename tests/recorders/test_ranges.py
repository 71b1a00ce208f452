"""Ranges arrive in a real export as they were emitted, whichever way they take."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.model.errors import UsageError
from pytest_nsight.recorders.nvtx.ranges import NAME_LIMIT_BYTES, choose, emitter, encode_name, within
from tests.collectors.real import environment, record, require_nsys

# Two sessions of nsys 2022.4 that start at one moment can end each other.
pytestmark = [pytest.mark.xdist_group("nsys"), pytest.mark.slow]

# An nsys that is too old for the nvtx package's own check takes ranges from its domain object all the same.
THROUGH_THE_PACKAGE = """
import nvtx
from nvtx._lib.lib import Domain, DomainHandle
from pytest_nsight.recorders.nvtx import ranges
domain = object.__new__(Domain)
domain.handle = DomainHandle(ranges.OWN_DOMAIN)
domain.__init__(ranges.OWN_DOMAIN)
target = ranges._PackageEmitter(domain, "forced")
"""
THROUGH_THE_TOOL = """
import os
from pytest_nsight.recorders.nvtx import ranges
from pytest_nsight.recorders.nvtx.nvtx_injection import InjectedDomain
target = ranges._InjectionEmitter(InjectedDomain(os.environ["NVTX_INJECTION64_PATH"], ranges.OWN_DOMAIN))
"""
AS_CHOSEN = """
from pytest_nsight.recorders.nvtx import ranges
target = ranges.emitter()
assert target.is_live and target is ranges.emitter()
"""
BODY = """
import threading
from pytest_nsight.recorders.nvtx.ranges import NAME_LIMIT_BYTES, within

target.start()
target.push("outer", 1)
target.push("inner ünï☃😀", -(2**63))
target.pop()
target.push("", 2**63 - 1)
target.pop()
target.pop()
target.push("x" * NAME_LIMIT_BYTES, 0)
target.pop()
try:
    with within(target, "raises", 5):
        raise ZeroDivisionError
except ZeroDivisionError:
    pass
with within(target, "after", 6):
    pass
def work():
    with within(target, "thread", 7): pass
with within(target, "main", 8):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
target.stop()
"""
EXPECTED = [
    ("outer", 1),
    ("inner ünï☃😀", -(2**63)),
    ("", 2**63 - 1),
    ("x" * NAME_LIMIT_BYTES, 0),
    ("raises", 5),
    ("after", 6),
    ("main", 8),
    ("thread", 7),
]


@pytest.fixture(scope="module", params=["package", "tool", "chosen"])
def rows(request, tmp_path_factory):
    """The exported ranges of our domain: name, payload, start, end, thread."""
    prelude = {"package": THROUGH_THE_PACKAGE, "tool": THROUGH_THE_TOOL, "chosen": AS_CHOSEN}[request.param]
    sqlite = record(require_nsys(), tmp_path_factory.mktemp(request.param), prelude + BODY)
    with closing(sqlite3.connect(sqlite)) as database:
        return database.execute("""
            select coalesce(text, (select value from StringIds where id = textId)), int64Value,
                start, end, globalTid
            from NVTX_EVENTS
            where eventType = 59 and domainId in
                (select domainId from NVTX_EVENTS where eventType = 75 and text = 'pytest_nsight')
            order by start
        """).fetchall()


@pytest.mark.slow
def test_names_and_payloads_arrive_in_order(rows):
    assert [(name or "", payload) for name, payload, *_ in rows] == EXPECTED


def test_nested_ranges_lie_inside_each_other(rows):
    spans = {payload: (start, end) for _, payload, start, end, _ in rows}
    outer, inner, empty = spans[1], spans[-(2**63)], spans[2**63 - 1]

    assert outer[0] < inner[0] <= inner[1] <= empty[0] <= empty[1] < outer[1]


@pytest.mark.slow
def test_a_range_around_an_exception_is_closed_before_the_next_opens(rows):
    spans = {payload: (start, end) for _, payload, start, end, _ in rows}

    assert spans[5][1] < spans[6][0]


def test_ranges_belong_to_the_thread_that_opened_them(rows):
    threads = {payload: thread for _, payload, _, _, thread in rows}

    assert threads[7] != threads[8] == threads[1]


@pytest.mark.slow
def test_ranges_of_the_nvtx_package_and_of_the_tool_stand_side_by_side(tmp_path):
    """A user's own NVTX library must neither stop ours nor be stopped by it."""
    code = (
        THROUGH_THE_PACKAGE
        + "theirs = target\n"
        + THROUGH_THE_TOOL
        + ("theirs.push('theirs', 1); target.push('ours', 2); target.pop(); theirs.pop()")
    )
    sqlite = record(require_nsys(), tmp_path, code)
    with closing(sqlite3.connect(sqlite)) as database:
        payloads = database.execute(
            "select int64Value from NVTX_EVENTS where eventType = 59 order by start"
        ).fetchall()

    assert payloads == [(1,), (2,)]


def test_without_a_tool_nothing_is_live_and_nothing_fails():
    silent = choose({})

    assert not silent.is_live
    assert "NVTX_INJECTION64_PATH is not set" in silent.mechanism
    with within(silent, "r1", 1):
        silent.push("inner", 2)
        silent.pop()


@pytest.mark.parametrize(
    ("library", "words"), [("/no/such/tool.so", "cannot open"), ("libc.so.6", "no InitializeInjectionNvtx2")]
)
def test_a_tool_that_cannot_be_used_is_named(library, words):
    """In a process of its own: the nvtx package remembers the tool that it saw first."""
    code = "from pytest_nsight.recorders.nvtx.ranges import emitter; e = emitter(); print(e.is_live, e.mechanism)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(NVTX_INJECTION64_PATH=library),
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.startswith("False tool attached, but ")
    assert words in done.stdout


@pytest.mark.parametrize(
    "name", ["x" * (NAME_LIMIT_BYTES + 1), "ü" * (NAME_LIMIT_BYTES // 2 + 1), "a\0b", "\udc80"]
)
def test_names_that_would_come_back_changed_are_refused(name):
    with pytest.raises(UsageError, match=r"choose a (shorter|plain) name"):
        choose({}).push(name, 1)


def test_the_longest_name_is_measured_in_bytes():
    assert len(encode_name("ü" * (NAME_LIMIT_BYTES // 2))) == NAME_LIMIT_BYTES


@pytest.mark.parametrize("payload", [2**63, -(2**63) - 1])
def test_payloads_beyond_64_bits_are_refused(payload):
    with pytest.raises(UsageError, match="does not fit in 64 bits"):
        choose({}).push("r", payload)


@pytest.mark.skipif("NVTX_INJECTION64_PATH" in os.environ, reason="this process runs under a tool")
def test_a_process_without_a_tool_does_not_load_the_nvtx_package():
    code = "import sys, pytest_nsight.recorders.nvtx.ranges as r; r.emitter(); print('nvtx' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )

    assert done.stdout == "False\n"
    assert emitter() is emitter()


FOREIGN = """
import os
from pytest_nsight.recorders.nvtx.nvtx_injection import InjectedDomain
from pytest_nsight.recorders.nvtx.ranges import emitter, within

library = InjectedDomain(os.environ["NVTX_INJECTION64_PATH"], "a library")
with within(emitter(), "ours", 1):
    library.push(b"theirs", 2)
    library.pop()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("user_ranges", "names"), [(False, {"ours"}), (True, {"ours", "theirs"})])
def test_ranges_of_libraries_are_recorded_only_if_asked(user_ranges, names, tmp_path):
    trace = read(record(require_nsys(), tmp_path, FOREIGN, user_ranges=user_ranges))

    assert {trace.strings[number] for number in trace.ranges.name} == names
