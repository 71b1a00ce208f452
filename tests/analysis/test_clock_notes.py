"""A recording whose clocks of host and device differ says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.analysis.picture import analyse
from pytest_nsight.collectors.nsys.read import read
from tests.trace.trace_builder import TraceBuilder

US = 1_000


def notes_of(
    folder: Path, *, off_us: int, wait: str = "cudaDeviceSynchronize_v3020", devices: int = 1, code: int = 0
) -> list[str]:
    """Of 20 launches of 100 us, each followed by a wait, with the device's clock off by so much."""
    trace = TraceBuilder()
    for number in range(20):
        at, off = 200 * US * number, off_us * US
        trace.launch("gemm", at + 5 * US + off, at + 105 * US + off, api_at=at, device=number % devices)
        trace.call(wait, at + 10 * US, at + 108 * US, code=code)
    notes = analyse(read(trace.write(folder / "trace.sqlite"))).notes
    return [note for note in notes if "clocks of host and device differ" in note]


@pytest.mark.parametrize("off_us", [-20, 0, 20])
def test_clocks_that_differ_by_microseconds_are_usual(tmp_path: Path, off_us: int) -> None:
    assert notes_of(tmp_path, off_us=off_us) == []


def test_work_that_begins_before_its_call_shows_another_clock(tmp_path: Path) -> None:
    (note,) = notes_of(tmp_path, off_us=-3000)

    assert note.startswith("20 of 20 launches begin before the calls that launched them, by up to 3.00 ms:")
    assert "critical path may be wrong" in note


def test_a_wait_that_returns_before_its_work_ends_shows_another_clock(tmp_path: Path) -> None:
    (note,) = notes_of(tmp_path, off_us=3000)

    assert note.startswith(
        "20 of 20 calls that synchronise the device return before the work that they wait for ends,"
    )


@pytest.mark.parametrize(
    ("wait", "devices"), [("cudaStreamSynchronize_v3020", 1), ("cudaDeviceSynchronize_v3020", 2)]
)
def test_a_wait_for_part_of_the_work_proves_nothing(tmp_path: Path, wait: str, devices: int) -> None:
    assert notes_of(tmp_path, off_us=3000, wait=wait, devices=devices) == []


def test_a_wait_that_failed_proves_nothing(tmp_path: Path) -> None:
    assert notes_of(tmp_path, off_us=3000, code=900) == []


def test_what_the_note_calls_right_is_right_and_what_it_calls_wrong_may_be_wrong(tmp_path: Path) -> None:
    """A copy of pageable memory, from whose times alone it shows whether its call waited."""
    found = {}
    for off_us in (0, -3000):
        trace = TraceBuilder()
        for number in range(20):
            at, off = 400 * US * number, off_us * US
            trace.range("step", at, at + 300 * US, domain="")
            start = at + 50 * US + off
            trace.copy(start, start + 100 * US, 64, api_at=at + 10 * US, api_ns=30 * US, is_pageable=True)
            trace.launch("gemm", at + 200 * US + off, at + 290 * US + off, api_at=at + 60 * US)
        found[off_us] = analyse(read(trace.write(tmp_path / f"{-off_us}.sqlite")))
    (right,), (wrong,) = (picture.ranges for picture in found.values())

    assert (right.kernel_ns, right.copy_ns, right.launches) == (wrong.kernel_ns, wrong.copy_ns, wrong.launches)
    assert (right.sync_ns, wrong.sync_ns) == (0, 20 * 30 * US)
    (note,) = [note for note in found[-3000].notes if "clocks of host and device differ" in note]
    assert "causes of idle time, waits for copies and the critical path may be wrong" in note
    assert note.endswith("how long kernels and copies run, and what each range launched, is not")
