"""Call stacks of an export: which are read, in which order, under which names."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.model.call_stacks import NO_STACK, UNRESOLVED, CallStacks
from pytest_nsight.model.errors import TraceError
from tests.trace.trace_builder import VINTAGES, TraceBuilder


def stacks_of(builder: TraceBuilder, folder: Path) -> CallStacks:
    return read(builder.write(folder / "trace.sqlite")).stacks


def frames_of(stacks: CallStacks, number: int) -> list[tuple[str, str]]:
    """Function and file of each frame of a stack; "?" for a function that is not known."""
    rows = [row for row, stack in enumerate(stacks.stack.tolist()) if stack == number]
    names = (*stacks.names, "?")
    assert UNRESOLVED == -1
    return [(names[stacks.symbol[row]], names[stacks.module[row]]) for row in rows]


@pytest.mark.parametrize("vintage", VINTAGES)
def test_a_stack_has_its_frames_from_the_innermost_one_on(vintage: str, tmp_path: Path) -> None:
    trace = TraceBuilder(vintage).launch("k", 10, 20, api_at=5)
    trace.stack("f(int) @ /home/me/app", "@ C:\\tools\\lib.dll", "main @ app").launch("k", 30, 40, api_at=25)
    stacks = stacks_of(trace, tmp_path)

    assert stacks.of_call.tolist() == [0, NO_STACK]
    assert frames_of(stacks, 0) == [("f(int)", "app"), ("?", "lib.dll"), ("main", "app")]


def test_stacks_of_calls_that_launched_nothing_are_not_read(tmp_path: Path) -> None:
    trace = (
        TraceBuilder().call("cudaMalloc", 1, 2).stack("alloc @ app").launch("k", 10, 20, api_at=5).stack("f @ app")
    )
    stacks = stacks_of(trace, tmp_path)

    assert stacks.of_call.tolist() == [NO_STACK, 0]
    assert "alloc" not in stacks.names


def test_calls_may_share_a_stack(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("k", 10, 20, api_at=5).stack("f @ app").launch("k", 30, 40, api_at=25)
    trace.rows["CUPTI_ACTIVITY_KIND_RUNTIME"][1]["callchainId"] = 1

    assert stacks_of(trace, tmp_path).of_call.tolist() == [0, 0]


def test_a_function_whose_name_is_missing_is_not_known(tmp_path: Path) -> None:
    trace = TraceBuilder().launch("k", 10, 20, api_at=5).stack("f @ app", "g @ app")
    trace.rows["CUDA_CALLCHAINS"][0]["symbol"] = 999

    assert frames_of(stacks_of(trace, tmp_path), 0) == [("?", "app"), ("g", "app")]


def test_a_damaged_table_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = TraceBuilder().launch("k", 10, 20, api_at=5).stack("f @ app").write(tmp_path / "trace.sqlite")
    with closing(sqlite3.connect(path)) as database:
        database.execute("update CUDA_CALLCHAINS set symbol = 'text'")
        database.commit()

    with pytest.raises(TraceError, match="CUDA_CALLCHAINS"):
        read(path)
