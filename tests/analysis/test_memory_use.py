"""What was held of memory, when, where and in which ranges: on traces of a few lines, and against a plain loop."""

from __future__ import annotations

import random
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import pytest

from pytest_nsight.analysis.memory_use import MemoryPicture, MemoryUse, RangeMemory
from pytest_nsight.analysis.picture import analyse
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.model.memory_events import MemoryKind
from pytest_nsight.show.page import View, render
from tests.trace.trace_builder import VINTAGES, TraceBuilder

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"
ALLOCATED = 705_753_088
"""What torch.cuda.max_memory_allocated() said at the end of each recorded program."""
OF_CUBLAS = 2 * (1_024 + 131_072 + 67_108_864)
"""Two threads multiply matrices: for each, cuBLAS calls cudaMalloc three times, which PyTorch does not count."""


def memory_of(builder: TraceBuilder, folder: Path, name: str = "") -> MemoryPicture:
    return analyse(read(builder.write(folder / "trace.sqlite")), name=name).memory


def only_use(builder: TraceBuilder, folder: Path) -> MemoryUse:
    (use,) = memory_of(builder, folder).uses
    return use


def range_of(builder: TraceBuilder, folder: Path, label: str) -> RangeMemory:
    (found,) = (one for one in memory_of(builder, folder).ranges if one.label == label)
    return found


def test_the_peak_is_the_most_held_at_a_time(tmp_path: Path) -> None:
    trace = TraceBuilder().memory(10, 1, 100).memory(20, 2, 50).memory(30, 1, 100, is_free=True).memory(40, 3, 70)

    use = only_use(trace, tmp_path)

    assert (use.peak_bytes, use.end_bytes) == (150, 120)
    assert (use.allocated_bytes, use.allocations, use.freed_bytes, use.frees) == (220, 3, 100, 1)


def test_rows_may_come_in_any_order(tmp_path: Path) -> None:
    trace = TraceBuilder().memory(30, 1, 100, is_free=True).memory(40, 3, 70).memory(20, 2, 50).memory(10, 1, 100)

    assert only_use(trace, tmp_path).peak_bytes == 150


@pytest.mark.parametrize("vintage", VINTAGES)
def test_each_kind_of_memory_is_apart(tmp_path: Path, vintage: str) -> None:
    """Arrays lie on the device."""
    kinds = ("pageable", "pinned", "device", "array", "managed", "device static", "managed static", "unknown")
    trace = TraceBuilder(vintage)
    for number, kind in enumerate(kinds):
        trace.memory(10 + number, 1 + number, 10**number, kind=kind)

    assert {one.kind: one.peak_bytes for one in memory_of(trace, tmp_path).uses} == {
        MemoryKind.PAGEABLE: 1,
        MemoryKind.PINNED: 10,
        MemoryKind.DEVICE: 1_100,
        MemoryKind.STATIC: 100_000,
        MemoryKind.MANAGED: 1_010_000,
        MemoryKind.UNKNOWN: 10_000_000,
    }


def test_the_peak_has_its_time_and_its_innermost_range(tmp_path: Path) -> None:
    trace = TraceBuilder().range("step", 100, 900, domain="").range("forward", 200, 400, domain="")
    trace.memory(150, 1, 10).memory(250, 2, 10).memory(500, 2, 10, is_free=True)

    use = only_use(trace, tmp_path)

    assert (use.peak_ns, use.peak_range) == (150, "forward")


@pytest.mark.parametrize("vintage", VINTAGES)
def test_a_pool_holds_what_it_has_reserved(tmp_path: Path, vintage: str) -> None:
    """The program uses part of it, and gives that back to the pool; the device gets back what the pool trims."""
    trace = TraceBuilder(vintage).memory(5, 1, 7)
    trace.memory(10, 10, 20, pool=10, pool_bytes=32).memory(20, 30, 20, pool=10, pool_bytes=64)
    trace.memory(30, 30, 20, is_free=True, pool=10, pool_bytes=64).pool_event(40, 10, 32)
    trace.memory(50, 30, 20, pool=10, pool_bytes=64)

    device, pooled = memory_of(trace, tmp_path).uses

    assert (device.kind, device.peak_bytes, device.end_bytes) == (MemoryKind.DEVICE, 71, 71)
    assert (device.allocated_bytes, device.allocations, device.freed_bytes, device.frees) == (103, 4, 32, 1)
    assert (pooled.kind, pooled.peak_bytes, pooled.end_bytes, pooled.frees) == (MemoryKind.POOLED, 40, 40, 1)


def test_a_pool_that_is_destroyed_holds_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder().pool_event(5, 10, 32, operation="created").memory(10, 10, 20, pool=10, pool_bytes=32)
    trace.memory(20, 10, 20, is_free=True, pool=10, pool_bytes=32).pool_event(30, 10, 32, operation="destroyed")

    device, _ = memory_of(trace, tmp_path).uses

    assert (device.peak_bytes, device.end_bytes, device.allocations, device.frees) == (32, 0, 1, 1)


def test_a_pool_of_the_host_is_no_memory_of_the_device(tmp_path: Path) -> None:
    trace = TraceBuilder().pool_event(5, 10, 32, operation="created")
    trace.memory(10, 10, 20, kind="pinned", pool=10, pool_bytes=32)

    use = only_use(trace, tmp_path)

    assert (use.kind, use.peak_bytes) == (MemoryKind.PINNED, 20)


def test_memory_that_was_allocated_before_is_not_freed(tmp_path: Path) -> None:
    trace = TraceBuilder().memory(10, 1, 100).memory(20, 9, 1_000, is_free=True).memory(30, 2, 50)

    memory = memory_of(trace, tmp_path)

    assert (memory.uses[0].peak_bytes, memory.uses[0].end_bytes, memory.uses[0].frees) == (150, 150, 0)
    assert "1 free is of memory that was allocated before the recording began" in memory.notes[0]


def test_an_address_is_of_one_allocation_at_a_time(tmp_path: Path) -> None:
    trace = TraceBuilder().memory(10, 1, 100).memory(20, 1, 60).memory(30, 1, 60, is_free=True)

    memory = memory_of(trace, tmp_path)

    assert (memory.uses[0].peak_bytes, memory.uses[0].end_bytes) == (100, 0)
    assert "1 allocation has the address of another one" in memory.notes[0]


def test_processes_that_share_a_device_hold_it_together(tmp_path: Path) -> None:
    """Each has addresses of its own."""
    trace = TraceBuilder().board("u", "H200", process=100).board("v", "H200", process=None)
    trace.row("TARGET_INFO_CUDA_DEVICE", gpuId=trace.rows["TARGET_INFO_GPU"][0]["id"], cudaId=0, pid=200)
    trace.memory(10, 1, 100, process=100).memory(20, 1, 50, process=200).memory(
        90, 1, 50, process=200, is_free=True
    )
    trace.memory(95, 1, 100, process=100, is_free=True)

    use = only_use(trace, tmp_path)

    assert (use.peak_bytes, use.end_bytes, use.device.uuid) == (150, 0, "GPU-u")


def test_a_process_that_has_ended_holds_nothing(tmp_path: Path) -> None:
    """At its end it frees nothing that the recording shows; at the end both held something."""
    trace = TraceBuilder().board("u", "H200").memory(10, 1, 100, process=100).memory(20, 1, 50, process=200)

    use = only_use(trace, tmp_path)

    assert (use.peak_bytes, use.end_bytes) == (100, 150)


def test_each_device_has_its_own_rows(tmp_path: Path) -> None:
    trace = TraceBuilder().board("u", "H200", ordinal=0, process=100).board("v", "H200", ordinal=1, process=100)
    trace.memory(10, 1, 100).memory(20, 2, 30, device=1).memory(30, 3, 7, device=1)

    found = [(one.device.ordinal, one.device.uuid, one.peak_bytes) for one in memory_of(trace, tmp_path).uses]

    assert found == [(0, "GPU-u", 100), (1, "GPU-v", 37)]


def test_without_such_events_nothing_is_said(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("k", 10, 20, api_at=5)
    assert memory_of(trace, tmp_path) == MemoryPicture()

    path = trace.write(tmp_path / "trace.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        definition = trace.definitions["CUDA_GPU_MEMORY_USAGE_EVENTS"]
        connection.execute(f"CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS ({definition})")
    assert "Memory that CUDA handed out" not in render(read(path), 120, View())


def steps_that_allocate(steps: int = 6) -> TraceBuilder:
    """A set-up that keeps memory, then steps that allocate and free some, the first of them some more."""
    trace = TraceBuilder().range("setup", 0, 90, domain="").memory(10, 1, 1_000)
    for step in range(steps):
        at = 100 + 100 * step
        trace.range("step", at, at + 90, domain="").range("forward", at + 10, at + 50, domain="")
        trace.memory(at + 20, 2, 10).memory(at + 60, 2, 10, is_free=True)
    return trace.memory(170, 3, 5)


def test_ranges_have_what_they_allocate_less_what_they_free(tmp_path: Path) -> None:
    step = range_of(steps_that_allocate(), tmp_path, "step")

    assert (step.count, step.growth_bytes, step.growing, step.peak_bytes) == (6, 5, 1, 1_015)
    assert (step.allocated_bytes, step.allocations, step.allocating) == (65, 7, 6)
    forward = range_of(steps_that_allocate(), tmp_path, "forward")
    assert (forward.growth_bytes, forward.growing) == (60, 6)
    setup = range_of(steps_that_allocate(), tmp_path, "setup")
    assert (setup.growth_bytes, setup.peak_bytes) == (1_000, 1_000)


def test_a_range_in_which_a_pool_grows_takes_device_memory(tmp_path: Path) -> None:
    trace = TraceBuilder().range("warm", 0, 90, domain="").memory(10, 10, 20, pool=10, pool_bytes=32)
    trace.range("step", 100, 190, domain="").memory(110, 30, 8, pool=10, pool_bytes=32)
    trace.range("trim", 200, 290, domain="").memory(210, 30, 8, is_free=True, pool=10, pool_bytes=32)

    found = {one.label: one.growth_bytes for one in memory_of(trace.pool_event(220, 10, 20), tmp_path).ranges}

    assert found == {"warm": 32, "trim": -12}


def test_the_ranges_that_move_the_most_memory_come_first(tmp_path: Path) -> None:
    assert [one.label for one in memory_of(steps_that_allocate(), tmp_path).ranges] == ["setup", "step", "forward"]


def test_memory_is_of_the_range_of_the_thread_that_allocates_it(tmp_path: Path) -> None:
    trace = TraceBuilder().range("train", 0, 100, domain="").range("load", 10, 90, domain="", thread=7)
    trace.memory(20, 1, 100).memory(30, 2, 40, thread=7)

    assert {one.label: one.allocated_bytes for one in memory_of(trace, tmp_path).ranges}["load"] == 40


def test_a_range_inside_one_of_its_label_counts_once(tmp_path: Path) -> None:
    trace = TraceBuilder().range("f", 0, 100, domain="").range("f", 10, 50, domain="").memory(20, 1, 100)

    found = range_of(trace, tmp_path, "f")

    assert (found.count, found.growth_bytes, found.allocations) == (1, 100, 1)


def test_a_range_that_only_frees_shrinks(tmp_path: Path) -> None:
    trace = TraceBuilder().memory(10, 1, 100).range("end", 50, 90, domain="").memory(60, 1, 100, is_free=True)

    found = range_of(trace, tmp_path, "end")

    assert (found.growth_bytes, found.peak_bytes, found.allocations) == (-100, 100, 0)


def test_allocations_that_recur_are_named_in_a_note(tmp_path: Path) -> None:
    (note,) = memory_of(steps_that_allocate(), tmp_path).notes
    assert note.startswith("6 of 6 ranges step allocate device memory and free it, 7 times in all")
    assert memory_of(steps_that_allocate(4), tmp_path).notes == ()


def test_steps_that_keep_what_they_allocate_are_named_in_a_note(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for step in range(6):
        trace.range("step", 100 * step, 100 * step + 90, domain="").memory(100 * step + 10, 1 + step, 1_000)

    (note,) = memory_of(trace, tmp_path).notes

    assert note.startswith("6 of 6 ranges step keep device memory that they allocate, 6.00 kB in all")


@pytest.mark.parametrize(
    ("freed_in", "words"),
    [
        ({1, 3, 5}, "3 of 6 ranges step keep device memory that they allocate, 3.00 kB in all"),
        ({0, 1, 2, 3}, "6 of 6 ranges step allocate device memory and free most of it, 6 times in all"),
        ({0, 1, 2, 3, 4, 5}, "6 of 6 ranges step allocate device memory and free it, 6 times in all"),
    ],
)
def test_what_some_steps_do_not_free_is_not_called_freed(tmp_path: Path, freed_in: set[int], words: str) -> None:
    trace = TraceBuilder()
    for step in range(6):
        trace.range("step", 100 * step, 100 * step + 90, domain="").memory(100 * step + 10, 1 + step, 1_000)
        if step in freed_in:
            trace.memory(100 * step + 50, 1 + step, 1_000, is_free=True)

    (note,) = memory_of(trace, tmp_path).notes

    assert note.startswith(words)


def test_of_chosen_ranges_there_is_no_table_of_devices(tmp_path: Path) -> None:
    memory = memory_of(steps_that_allocate(), tmp_path, "step")

    assert memory.uses == ()
    assert {one.label for one in memory.ranges} == {"step", "forward"}


def test_the_page_leaves_out_kinds_with_little(tmp_path: Path) -> None:
    trace = TraceBuilder().memory(10, 1, 1 << 30).memory(20, 2, 100, kind="device static")

    text = render(read(trace.write(tmp_path / "trace.sqlite")), 120, View())

    assert "device  1.07 GB     1.07 GB" in text
    assert "static variables" not in text


def test_with_several_devices_each_row_names_its_own(tmp_path: Path) -> None:
    trace = TraceBuilder().board("u", "H200", ordinal=0, process=100).board("v", "H200", ordinal=1, process=100)
    trace.range("setup", 0, 90, domain="").memory(10, 1, 1 << 30).memory(20, 2, 1 << 29, device=1)

    text = render(read(trace.write(tmp_path / "trace.sqlite")), 120, View())

    for row in ("0 H200: device  1.07 GB", "1 H200: device   537 MB", "0 H200: setup  1", "1 H200: setup  1"):
        assert row in text


def test_a_device_that_is_nearly_full_is_said(tmp_path: Path) -> None:
    def notes(memory_bytes: int) -> tuple[str, ...]:
        trace = TraceBuilder().board("u", "H200", process=100, memory_bytes=memory_bytes)
        return memory_of(trace.memory(10, 1, 95_000), tmp_path).notes

    assert "device 0 has 100 kB, and 95.0 kB were held at most" in notes(100_000)[0]
    assert notes(200_000) == ()


@pytest.mark.parametrize(
    ("allocator", "reserved"), [("native", 723_517_440), ("async", 838_860_800), ("expandable", 736_100_352)]
)
def test_a_peak_is_what_pytorch_says_it_reserved(allocator: str, reserved: int) -> None:
    """To the byte, by torch.cuda.max_memory_reserved() of three settings of its allocator."""
    picture = analyse(load_trace(RECORDINGS / f"h200_memory_{allocator}.sqlite.xz"))
    peaks = {one.kind: one.peak_bytes for one in picture.memory.uses}

    assert peaks[MemoryKind.DEVICE] == reserved + OF_CUBLAS
    assert peaks.get(MemoryKind.POOLED, ALLOCATED) == ALLOCATED
    found = {one.label: (one.count, one.growing, one.allocating) for one in picture.memory.ranges}
    assert found["attempt"] == (3, 0, 3)
    assert found["train_step#*"] == ((6, 2, 2) if allocator == "async" else (6, 1, 1))


@pytest.mark.parametrize("seed", range(5))
def test_random_events_give_what_a_loop_gives(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    trace = TraceBuilder().board("u", "H200", ordinal=0, process=100)
    held: dict[int, int] = {}
    expected: dict[str, int] = defaultdict(int)
    for at in range(10, 4_000, 10):
        address, size = generator.randrange(20), generator.randrange(1, 1_000)
        is_free = generator.random() < 0.5
        trace.memory(at, address, size, is_free=is_free)
        freed = held.pop(address, 0)
        expected["freed"] += freed
        if not is_free:
            held[address] = size
            expected["allocated"] += size
        expected["peak"] = max(expected["peak"], sum(held.values()))

    use = only_use(trace, tmp_path)

    assert (use.peak_bytes, use.end_bytes) == (expected["peak"], sum(held.values()))
    assert (use.allocated_bytes, use.freed_bytes) == (expected["allocated"], expected["freed"])
