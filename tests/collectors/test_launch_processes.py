"""Traces of several processes: each launch belongs to the process of its call, or a note says why none is known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.analysis.picture import analyse
from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.trace import Trace

Row = tuple[int, int, int, int]
"""Process, device, correlation, time of the call in microseconds."""
OPERATORS = {11: "mm", 22: "add", 100: "mm", 101: "add", 102: "mul"}
"""What each process runs; names that differ in numbers only would be one range."""


def events_of(rows: Sequence[Row], call: str = "cudaLaunchKernel") -> list[dict[str, Any]]:
    """An operator, its call and its kernel, which starts 20 us after the call, for each row."""
    found: list[dict[str, Any]] = []
    for process, device, correlation, at in rows:
        host = {"ph": "X", "pid": process, "tid": process}
        arguments = {"device": device, "stream": 7, "correlation": correlation}
        found += [
            {**host, "cat": "cpu_op", "name": f"aten::{OPERATORS[process]}", "ts": at - 5, "dur": 15},
            {**host, "cat": "cuda_runtime", "name": call, "ts": at, "dur": 5, "args": {"correlation": correlation}},
            {
                "ph": "X", "cat": "kernel", "name": f"kernel_{process}", "ts": at + 20, "dur": 10, "pid": device,
                "tid": 7, "args": arguments,
            },
        ]  # fmt: skip
    return found


def read(folder: Path, events: Sequence[dict[str, Any]], **head: object) -> Trace:
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, **head, "traceEvents": events}))
    return load_trace(path)


def launches_of(trace: Trace) -> dict[str, int]:
    return {one.path[-1]: one.launches for one in analyse(trace).ranges}


def owners(trace: Trace) -> list[tuple[str, int]]:
    """Each launch's name, which ends with its true process, and the process that the trace gives it."""
    names = [trace.shapes[shape].name for shape in trace.launches.shape.tolist()]
    return list(zip(names, trace.launches.process.tolist(), strict=True))


def is_right(trace: Trace) -> bool:
    return all(name == f"kernel_{process}" for name, process in owners(trace))


def test_without_calls_launches_keep_the_process_that_the_file_states(tmp_path: Path) -> None:
    events = [one for one in events_of([(11, 0, 1, 100), (22, 0, 2, 200)]) if one["cat"] != "cuda_runtime"]
    stated = [{"id": 0, "name": "board", "process": 22, "track": 0}]

    assert [process for _, process in owners(read(tmp_path, events, deviceProperties=stated))] == [22, 22]
    assert len(read(tmp_path, events).launches) == 2


def test_each_board_is_of_the_process_that_launched_on_it(tmp_path: Path) -> None:
    boards = [{"id": 0, "name": "one"}, {"id": 1, "name": "other"}, {"id": 2, "name": "unused"}]
    trace = read(tmp_path, events_of([(11, 0, 1, 100), (22, 1, 2, 200)]), deviceProperties=boards)

    assert [(one.name, one.process) for one in trace.devices] == [("one", 11), ("other", 22), ("unused", None)]


def test_merged_ranks_keep_their_own_launches(tmp_path: Path) -> None:
    rows = [(pid, pid - 100, 1000 * pid + at, 100 * at) for pid in (100, 101, 102) for at in range(1, 6)]
    trace = read(tmp_path, events_of(rows))

    assert is_right(trace)
    assert launches_of(trace) == {"aten::mm": 5, "aten::add": 5, "aten::mul": 5}
    assert not analyse(trace).notes


def test_ids_that_collide_are_told_apart_by_the_device(tmp_path: Path) -> None:
    """All ids of the second run are ids of the first, too, which has more."""
    rows = [(11, 0, at, 100 * at) for at in range(1, 9)] + [(22, 1, at, 100 * at + 30) for at in range(3, 6)]
    trace = read(tmp_path, events_of(rows))

    assert is_right(trace)
    assert launches_of(trace) == {"aten::mm": 8, "aten::add": 3}


def test_ids_that_collide_are_told_apart_by_the_time(tmp_path: Path) -> None:
    """A kernel starts after its call, and a call launches one: what the first run's made is not the second's."""
    rows = [(11, 0, at, 1000 * at) for at in range(1, 5)] + [(22, 0, at, 50_000 + 1000 * at) for at in range(1, 5)]
    trace = read(tmp_path, events_of(rows))

    assert is_right(trace)
    assert launches_of(trace) == {"aten::mm": 4, "aten::add": 4}


def test_ids_that_nothing_tells_apart_leave_launches_without_a_call(tmp_path: Path) -> None:
    rows = [(pid, 0, at, 100 * at + pid) for pid in (11, 22) for at in range(1, 5)] + [(11, 0, 9, 900)]
    trace = read(tmp_path, events_of(rows))

    assert launches_of(trace)["aten::mm"] == 1, "only the id 9 is of one process"
    (note,) = analyse(trace).notes
    assert note.startswith("8 of 9 launches have correlation ids that calls of several processes share, and are in")
    assert note.endswith("merge ranks with distinct ids, or show one rank's file")
    assert {one.reason.value for one in analyse(trace).unattributed} == {"calls of several processes have its id"}


def test_one_call_of_a_graph_launches_many_kernels(tmp_path: Path) -> None:
    events = events_of([(11, 0, 1, 100), (22, 1, 1, 130), (22, 1, 2, 300)], "cudaGraphLaunch")
    events += [{**one, "ts": one["ts"] + 40} for one in events if one["cat"] == "kernel"]
    trace = read(tmp_path, events)

    assert is_right(trace)
    assert launches_of(trace) == {"aten::mm": 2, "aten::add": 4}


def test_a_launch_without_a_call_belongs_to_the_process_of_its_device(tmp_path: Path) -> None:
    events = events_of([(11, 0, 11, 100), (22, 1, 22, 100), (22, 1, 23, 200)])
    lost = [one for one in events if one["cat"] != "cuda_runtime" or one["args"]["correlation"] != 23]
    trace = read(tmp_path, lost)

    assert is_right(trace)
    (note,) = analyse(trace).notes
    assert note.startswith("1 of 3 launches has no API call in the recording")


def test_operators_of_several_processes_without_a_gpu_are_all_counted(tmp_path: Path) -> None:
    """Both processes number their threads alike."""
    operators = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": pid, "tid": 1, "ts": 5, "dur": 15}
        for pid in (11, 22)
    ]
    trace = read(tmp_path, operators)

    assert trace.launches.process.tolist() == [11, 22]


def test_processes_and_threads_with_names_are_numbered(tmp_path: Path) -> None:
    """SGLang merges ranks so."""
    merged = [
        {**one, "pid": f"[TP{rank:02d}] {one['pid']}", "tid": f"thread {one['tid']}"}
        for rank in range(3)
        for one in events_of([(100 + rank, 0, 1000 * rank + at, 100 * at) for at in range(1, 6)])
    ]
    trace = read(tmp_path, merged)

    assert launches_of(trace) == {"aten::mm": 5, "aten::add": 5, "aten::mul": 5}
    assert len(set(trace.launches.process.tolist())) == len(analyse(trace).devices) == 3
    assert trace.programs[:2] == ("[TP00] 100", "[TP00] 0")
    assert not analyse(trace).notes


def test_numbers_of_names_are_no_number_that_another_process_has(tmp_path: Path) -> None:
    operator = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 5, "dur": 15}
    places: list[dict[str, object]] = [{"pid": 1, "tid": 2}, {"pid": "a", "tid": "a"}, {"pid": "3", "tid": 2}]
    trace = read(tmp_path, [{**operator, **place} for place in places])

    assert trace.ranges.process.tolist() == [1, 4, 3]
    assert trace.ranges.thread.tolist() == [2, 5, 2]


@pytest.mark.parametrize("value", [True, None, 1.5, [1], {}])
def test_a_process_that_is_neither_a_number_nor_a_name_is_refused(tmp_path: Path, value: object) -> None:
    operator = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 5, "dur": 15}

    with pytest.raises(
        TraceError, match=r"in event 1, pid is .*, neither a whole number nor a text; write numbers or texts"
    ):
        read(tmp_path, [operator, {**operator, "pid": value}])


def test_what_the_file_says_of_its_devices_decides(tmp_path: Path) -> None:
    """`show --perfetto` writes which process the events of each device belong to."""
    events = events_of([(pid, 0, at, 100 * at + pid) for pid in (11, 22) for at in range(1, 5)])
    for one in events:
        if one["cat"] == "kernel":
            one["pid"] = 5000 + int(one["name"].removeprefix("kernel_"))
    boards = [
        {"id": 0, "name": "NVIDIA H200", "process": pid, "track": 5000 + pid, "uuid": f"GPU-{pid}"}
        for pid in (11, 22)
    ]
    trace = read(tmp_path, events, deviceProperties=boards)

    assert is_right(trace)
    assert [(one.process, one.uuid) for one in trace.devices] == [(11, "GPU-11"), (22, "GPU-22")]
    assert len(analyse(trace).devices) == 2
    assert not analyse(trace).notes
