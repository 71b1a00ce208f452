"""A recording whose clocks of host and device differ says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.analysis.picture import analyse
from pytest_nsight.collectors.nsys.read import read
from tests.trace.trace_builder import TraceBuilder

US = 1_000


def notes_of(
    folder: Path, *, off_us: int, wait: str = "cudaDeviceSynchronize_v3020", devices: int = 1
) -> list[str]:
    """Of 20 launches of 100 us, each followed by a wait, with the device's clock off by so much."""
    trace = TraceBuilder()
    for number in range(20):
        at, off = 200 * US * number, off_us * US
        trace.launch("gemm", at + 5 * US + off, at + 105 * US + off, api_at=at, device=number % devices)
        trace.call(wait, at + 10 * US, at + 108 * US)
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
