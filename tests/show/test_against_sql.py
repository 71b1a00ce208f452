"""The numbers of `show` against plain SQL and plain loops over the export, on every recording."""

from __future__ import annotations

import json
import lzma
import os
import re
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from pytest_nsight.analysis.idle_causes import IdleCause
from pytest_nsight.analysis.picture import Picture, analyse
from pytest_nsight.analysis.timeline import DeviceWork
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.model.memory_events import MemoryKind
from pytest_nsight.model.trace import Trace
from pytest_nsight.show.records import list_tables, write_csv, write_json
from pytest_nsight.show.table_columns import COLUMNS
from pytest_nsight.trace.measures import measure

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[1] / "data" / "recordings"
MORE = os.environ.get("PYTEST_NSIGHT_RECORDINGS", "")
"""Folders with further exports, packed or not, separated by colons."""

PATHS = [
    *sorted(DATA.glob("**/*.sqlite.xz")),
    *(path for folder in MORE.split(":") if folder for path in sorted(Path(folder).glob("*.sqlite*"))),
]
KERNEL, COPY, SET = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET"))
MEMORY, POOLS = (f"CUDA_GPU_MEMORY_{name}_EVENTS" for name in ("USAGE", "POOL"))
GRAPH, RUNTIME = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUPTI_ACTIVITY_KIND_RUNTIME"
CHAINS = "CUDA_CALLCHAINS"


class Recording:
    """One export: as a file, as a trace, and as the picture of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trace: Trace = read(path)
        self.picture: Picture = analyse(self.trace)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(sql).fetchall()

    def has(self, table: str) -> bool:
        return bool(self.rows(f"SELECT 1 FROM sqlite_master WHERE name = '{table}'"))

    @property
    def calls(self) -> str:
        """The table of CUDA calls, each once: those with a backtrace have a second record inside of the first."""
        if not self.has(CHAINS):
            return RUNTIME
        return (
            f"(SELECT * FROM {RUNTIME} WHERE rowid NOT IN (SELECT i.rowid FROM {RUNTIME} i JOIN {RUNTIME} o "
            "ON o.correlationId = i.correlationId AND o.globalTid = i.globalTid AND o.rowid != i.rowid "
            "WHERE o.callchainId IS NOT NULL AND o.start <= i.start AND o.end >= i.end))"
        )


@pytest.fixture(scope="module", params=PATHS, ids=lambda path: path.name.partition(".")[0])
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    packed: Path = request.param
    if packed.suffix != ".xz":
        return Recording(packed)
    path = tmp_path_factory.mktemp("recording") / packed.stem
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    return Recording(path)


def union(intervals: list[tuple[int, int]]) -> int:
    total, reached = 0, -(2**62)
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def test_kernels_by_name_are_those_of_sql(recording: Recording) -> None:
    expected: dict[str, tuple[int, int]] = {}
    if recording.has(KERNEL):
        sql = (
            f"SELECT s.value, count(*), sum(k.end - k.start) FROM {KERNEL} k "
            "JOIN StringIds s ON s.id = k.demangledName GROUP BY s.value"
        )
        expected = {name: (count, total) for name, count, total in recording.rows(sql)}
    if recording.has(GRAPH):
        expected["CUDA graph"] = recording.rows(f"SELECT count(*), sum(end - start) FROM {GRAPH}")[0]  # type: ignore[assignment]

    found = {one.full_name: (one.calls, one.total_ns) for one in recording.picture.kernels}
    assert found == {name: one for name, one in expected.items() if one[0]}
    assert len({one.name for one in recording.picture.kernels}) == len(found)


def test_categories_and_shapes_add_up_to_the_kernels(recording: Recording) -> None:
    picture = recording.picture
    whole_ns = sum(one.total_ns for one in picture.kernels)

    assert sum(one.total_ns for one in picture.categories) == whole_ns
    for kernel in picture.kernels:
        assert sum(one.total_ns for one in kernel.shapes) == kernel.total_ns
        assert sum(one.calls for one in kernel.shapes) == kernel.calls
    if whole_ns:
        assert sum(one.share for one in picture.categories) == pytest.approx(1)


def name_operator(symbols: list[str]) -> str:
    """The operator of PyTorch that launched, after the node of autograd, by a stack from its outermost frame on."""
    caller = operator = ""
    for symbol in symbols:
        if match := re.match(r"torch::autograd::generated::(\w+)::apply\(", symbol):
            caller, operator = f"{match[1]}: ", ""
        elif symbol.startswith("torch::autograd::Engine::"):
            caller, operator = "backward: ", ""
        elif match := re.match(r"at::_ops::(\w+)::call\(", symbol):
            operator = operator or f"aten::{match[1]}"
    return caller + operator if operator else ""


def test_launching_operators_are_those_of_sql(recording: Recording) -> None:
    found = {one.code: (one.launches, one.total_ns) for one in recording.picture.codes}
    if not recording.has(CHAINS):
        assert found == {}
        return
    stacks: dict[int, list[str]] = defaultdict(list)
    sql = (
        f"SELECT c.id, s.value FROM {CHAINS} c JOIN StringIds s ON s.id = c.symbol ORDER BY c.id, c.stackDepth DESC"
    )
    for chain, symbol in recording.rows(sql):
        stacks[chain].append(symbol)
    # Of the two records of a call that has a stack, one has its id.
    sql = (
        f"SELECT max(r.callchainId), k.end - k.start FROM {KERNEL} k JOIN {RUNTIME} r ON r.correlationId = "
        "k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24 GROUP BY k.rowid"
    )
    expected: dict[str, tuple[int, int]] = {}
    for chain, length in recording.rows(sql):
        # Code that is no operator has a name that this loop does not find.
        code = name_operator(stacks[chain]) or "other" if chain else ""
        calls, total = expected.get(code, (0, 0))
        expected[code] = calls + 1, total + length

    assert {code: one for code, one in found.items() if not code or "aten::" in code} == {
        code: one for code, one in expected.items() if code != "other"
    }
    if found:
        assert sum(one.share for one in recording.picture.codes) == pytest.approx(1)
        kernel_ns = {one.name: one.total_ns for one in recording.picture.kernels}
        assert all(one.kernel_ns <= min(one.total_ns, kernel_ns[one.kernel]) for one in recording.picture.codes)


def test_copies_are_those_of_sql(recording: Recording) -> None:
    copies = sets = (0, 0, 0)
    if recording.has(COPY):
        copies = recording.rows(f"SELECT count(*), sum(end - start), sum(bytes) FROM {COPY}")[0]  # type: ignore[assignment]
    if recording.has(SET):
        sets = recording.rows(f"SELECT count(*), sum(end - start), sum(bytes) FROM {SET}")[0]  # type: ignore[assignment]

    for expected, name in ((copies, "memcpy"), (sets, "memset")):
        own = [one for one in recording.picture.copies if one.name.startswith(name)]
        assert sum(one.count for one in own) == expected[0]
        assert sum(one.total_ns for one in own) == (expected[1] or 0)
        assert sum(one.bytes_moved for one in own) == (expected[2] or 0)


def test_memory_is_what_sql_finds_of_it(recording: Recording) -> None:
    """Of one process and one board: a free counts if an allocation of its address is before it."""
    if not recording.has(MEMORY):
        assert recording.picture.memory.uses == ()
        return
    sizes = f"SELECT start, localMemoryPoolAddress AS pool, localMemoryPoolSize AS size FROM {MEMORY}"
    if recording.has(POOLS):
        sizes += f" UNION ALL SELECT start, address, localMemoryPoolSize FROM {POOLS}"
    deltas = (
        f"WITH events AS (SELECT *, lag(memoryOperationType) OVER places AS was, lag(bytes) OVER places AS old "
        f"FROM {MEMORY} WINDOW places AS (PARTITION BY address ORDER BY start)), "
        f"sizes AS (SELECT start, size - lag(size, 1, 0) OVER (PARTITION BY pool ORDER BY start) AS delta "
        f"FROM ({sizes}) WHERE size IS NOT NULL), "
        "deltas AS (SELECT start, 2 AS kind, delta FROM sizes WHERE delta != 0 UNION ALL "
        "SELECT start, iif(localMemoryPoolSize IS NULL, memKind, 'pooled'), "
        "iif(memoryOperationType = 0, bytes, iif(was = 0, -old, 0)) FROM events), "
        "levels AS (SELECT *, sum(delta) OVER (PARTITION BY kind ORDER BY start) AS held FROM deltas) "
        "SELECT kind, max(held), sum(delta), sum(max(delta, 0)), sum(delta > 0), sum(delta < 0) FROM levels "
        "GROUP BY kind"
    )
    kinds = {1: MemoryKind.PINNED, 2: MemoryKind.DEVICE, 4: MemoryKind.MANAGED, 5: MemoryKind.STATIC}
    expected = {kinds.get(kind, MemoryKind.POOLED): tuple(row) for kind, *row in recording.rows(deltas)}

    assert {
        one.kind: (one.peak_bytes, one.end_bytes, one.allocated_bytes, one.allocations, one.frees)
        for one in recording.picture.memory.uses
    } == expected


class Work(NamedTuple):
    """What ran: where, for which process, in which table, from when to when, and when it was launched."""

    place: object
    process: int
    table: str
    start: int
    end: int
    called: int


def list_work(recording: Recording) -> list[Work]:
    """Its place is a board where the export maps ordinals to boards, else an ordinal of a process."""
    boards: dict[tuple[int, int], str] = {}
    if recording.has("TARGET_INFO_CUDA_DEVICE"):
        sql = (
            "SELECT d.pid, d.cudaId, g.uuid FROM TARGET_INFO_CUDA_DEVICE d JOIN TARGET_INFO_GPU g ON g.id = d.gpuId"
        )
        boards = {(process, ordinal): uuid for process, ordinal, uuid in recording.rows(sql)}
    called: dict[tuple[int, int], int] = {}
    if recording.has(RUNTIME):
        sql = f"SELECT globalTid >> 24 & 0xFFFFFF, correlationId, start FROM {RUNTIME}"
        called = {(process, correlation): start for process, correlation, start in recording.rows(sql)}
    found = []
    for table in (KERNEL, COPY, SET, GRAPH):
        if recording.has(table):
            columns = [row[1] for row in recording.rows(f"PRAGMA table_info({table})")]
            process = "globalPid >> 24 & 0xFFFFFF" if "globalPid" in columns else "0"
            sql = f"SELECT start, end, deviceId, {process}, correlationId FROM {table}"
            for start, end, device, owner, link in recording.rows(sql):
                place = boards.get((owner, device), (owner, device))
                found.append(Work(place, owner, table, start, end, called.get((owner, link), start)))
    return found


def test_busy_and_idle_time_of_a_device_are_those_of_a_loop(recording: Recording) -> None:
    work: dict[object, list[tuple[int, int]]] = defaultdict(list)
    owners: dict[object, set[int]] = defaultdict(set)
    kernels: dict[object, list[tuple[int, int]]] = defaultdict(list)
    for one in list_work(recording):
        work[one.place].append((one.start, one.end))
        owners[one.place].add(one.process)
        if one.table in (KERNEL, GRAPH):
            kernels[one.place].append((one.start, one.end))
    every = [interval for intervals in work.values() for interval in intervals]
    wall_ns = max(end for _, end in every) - min(start for start, _ in every) if every else 0

    found = sorted((one.wall_ns, one.busy_ns, one.kernel_ns) for one in recording.picture.devices)
    assert found == sorted((wall_ns, union(work[place]), union(kernels[place])) for place in work)
    known = [device.processes for device in recording.picture.devices]
    assert sorted(known) == sorted(tuple(sorted(used - {0})) for used in owners.values())
    for device in recording.picture.devices:
        assert device.busy_ns + device.idle_ns == device.wall_ns
        assert device.kernel_ns + device.copy_ns - device.overlap_ns == device.busy_ns


def test_the_states_partition_the_wall_time(recording: Recording) -> None:
    picture = recording.picture

    assert sum(one.total_ns for one in picture.states) == sum(one.wall_ns for one in picture.devices)
    assert all(one.total_ns >= 0 for one in picture.states)
    busy_ns = sum(one.busy_ns for one in picture.devices)
    assert sum(one.total_ns for one in picture.states if isinstance(one.state, DeviceWork)) == busy_ns


def test_idle_time_of_allocations_is_what_sql_finds_of_them(recording: Recording) -> None:
    """A gap is divided by time: an allocation of 161 ms in a gap of 588 ms counts in full.

    What happens after the launch that ends the gap was called, while it is awaited, is none of the host's.
    With several devices it is at most that: a thread may allocate while one waits for it and another does not.
    """
    calls = (
        recording.rows(
            f"SELECT start, end FROM {recording.calls} JOIN StringIds ON id = nameId "
            "WHERE value LIKE 'cuda%Malloc%' OR value LIKE 'cuda%Alloc%' OR value LIKE 'cudaFree%' "
            "OR value IN ('cuMemCreate', 'cuMemMap', 'cuMemUnmap', 'cuMemRelease')"
        )
        if recording.has(RUNTIME)
        else []
    )
    work = list_work(recording)
    first, last = min((one.start for one in work), default=0), max((one.end for one in work), default=0)
    idle_ns = 0
    for place in {one.place for one in work}:
        reached = first
        busy = [(one.start, one.end, one.called) for one in work if one.place == place]
        for start, end, called in [*sorted(busy), (last, last, last)]:
            until = min(start, called)
            idle_ns += sum(max(0, min(until, call_end) - max(reached, call)) for call, call_end in calls)
            reached = max(reached, end)

    states = {one.state: one.total_ns for one in recording.picture.states}
    found_ns = states.get(IdleCause.ALLOCATION, 0)
    assert found_ns == idle_ns if len(recording.picture.devices) == 1 else found_ns <= idle_ns


def test_calls_and_synchronisation_are_those_of_sql(recording: Recording) -> None:
    if not recording.has(RUNTIME):
        assert recording.picture.calls == ()
        return
    sql = (
        f"SELECT s.value, count(*), sum(r.end - r.start) FROM {recording.calls} r "
        "JOIN StringIds s ON s.id = r.nameId GROUP BY s.value"
    )
    expected: dict[str, tuple[int, int]] = {}
    for full_name, count, total in recording.rows(sql):
        name = full_name.rpartition("_v")[0] if full_name.rpartition("_v")[2].isdecimal() else full_name
        before = expected.get(name, (0, 0))
        expected[name] = (before[0] + count, before[1] + total)

    assert {one.name: (one.calls, one.total_ns) for one in recording.picture.calls} == expected
    waiting = sum(total for name, (_, total) in expected.items() if "Synchronize" in name)
    found = dict.fromkeys((False, True), 0)
    for one in recording.picture.calls:
        found["Async" in one.name] += one.waiting_ns
    assert found[False] == waiting
    if not recording.has(COPY):
        return
    # Of pageable memory a copy waits that returns when at least half of it is done.
    ((blocked,),) = recording.rows(
        f"SELECT coalesce(sum(r.end - r.start), 0) FROM {COPY} m JOIN {recording.calls} r ON r.correlationId = "
        "m.correlationId AND r.globalTid / 0x1000000 = m.globalPid / 0x1000000 "
        "WHERE (m.srcKind = 0 OR m.dstKind = 0) AND 2 * (r.end - m.start) >= m.end - m.start"
    )
    assert found[True] == blocked


def test_the_tree_adds_up_to_the_attribution(recording: Recording) -> None:
    ranges = measure(recording.trace, None).ranges
    nodes = recording.picture.ranges

    assert sum(one.count for one in nodes) == len(ranges)
    for column, values in (
        ("kernel_ns", [one.kernel_ns for one in nodes]),
        ("copy_ns", [one.copy_ns for one in nodes]),
        ("launches", [one.launches for one in nodes]),
        ("sync_ns", [one.sync_ns for one in nodes]),
        ("wall_ns", [one.wall_ns for one in nodes]),
    ):
        assert sum(values) == int(ranges[column].sum())


def test_a_child_in_the_tree_takes_no_more_than_its_parent(recording: Recording) -> None:
    by_path = {one.path: one for one in recording.picture.ranges}
    for path, node in by_path.items():
        if len(path) > 1:
            assert node.kernel_ns <= by_path[path[:-1]].kernel_ns


def test_the_critical_path_is_as_long_as_the_step(recording: Recording) -> None:
    path = recording.picture.path
    if path is not None:
        assert sum(one.total_ns for one in path.parts) == path.wall_ns


def test_json_and_csv_hold_the_same_tables(recording: Recording) -> None:
    tables = list_tables(recording.picture)
    document = json.loads(write_json(recording.picture))

    assert document.pop("format") == 1
    assert document == tables
    for name, records in tables.items():
        text = write_csv(recording.picture, name)
        assert text.splitlines()[0] == ",".join(COLUMNS[name])
        assert len(text.splitlines()) == len(records) + 1


def test_every_launch_is_in_a_range_or_listed_as_unattributed(recording: Recording) -> None:
    measured = measure(recording.trace, None)
    listed = sum(one.count for one in recording.picture.unattributed)

    assert listed + int(np.count_nonzero(measured.is_inside)) == len(recording.trace.launches)


def test_the_reference_lists_every_column() -> None:
    text = (Path(__file__).parents[2] / "docs/reference.md").read_text(encoding="utf-8")

    text = text.partition("### Tables of show")[2].partition("\n## ")[0]
    for name, columns in COLUMNS.items():
        (row,) = re.findall(rf"^\| `{name}` \| [^|]+ \| (.+) \|$", text, re.MULTILINE)
        assert row == ", ".join(f"`{column}`" for column in columns)
