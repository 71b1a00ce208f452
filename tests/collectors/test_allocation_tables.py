"""The tables of allocations: what is read of them, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.collectors.nsys.scrub import scrub
from pytest_nsight.model.errors import TraceError
from tests.trace.trace_builder import VINTAGES, TraceBuilder


def test_events_without_times_are_left_out(tmp_path: Path) -> None:
    trace = read(TraceBuilder().memory(0, 1, 100).memory(0, 2, 50).write(tmp_path / "trace.sqlite"))

    assert not len(trace.memory.events)
    assert any("have one time" in note for note in trace.notes)


def test_an_unknown_operation_is_left_out(tmp_path: Path) -> None:
    trace = TraceBuilder().memory(10, 1, 100).memory(20, 2, 50)
    trace.rows["CUDA_GPU_MEMORY_USAGE_EVENTS"][1]["memoryOperationType"] = 5

    found = read(trace.write(tmp_path / "trace.sqlite"))

    assert len(found.memory.events) == 1
    assert any("operation other than 0 and 1" in note for note in found.notes)


def test_an_allocation_of_an_impossible_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="an allocation of 1000000000000000000 bytes"):
        read(TraceBuilder().memory(10, 1, 10**18).write(tmp_path / "trace.sqlite"))


@pytest.mark.parametrize("vintage", VINTAGES)
def test_a_scrubbed_recording_holds_the_same_memory(tmp_path: Path, vintage: str) -> None:
    trace = TraceBuilder(vintage).memory(10, 1, 100, kind="managed").memory(20, 9, 8, pool=77, pool_bytes=32)
    path = trace.pool_event(30, 77, 16).board("u", "H200", memory_bytes=1_000).write(tmp_path / "trace.sqlite")
    scrub(path, tmp_path / "scrubbed.sqlite")

    found, expected = read(tmp_path / "scrubbed.sqlite"), read(path)

    assert (len(found.memory.events), len(found.memory.pools)) == (2, 2)
    assert repr(found.memory) == repr(expected.memory)
    assert found.devices[0].memory_bytes == 1_000
