"""Communication that mostly waits for one device names it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_nsight.analysis.picture import analyse
from pytest_nsight.collectors.nsys.read import read
from tests.trace.trace_builder import TraceBuilder

US = 1_000
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def ranks(folder: Path, *, late_us: int, late: int = 2, alike: bool = True, together: bool = True) -> list[str]:
    """The notes on 4 ranks with 10 steps of 1 ms each: a product, and an exchange of 100 us once all are ready."""
    trace = TraceBuilder()
    for rank in range(4):
        trace.board(f"{rank}" * 4, "NVIDIA H100", process=100 + rank, ordinal=rank)
    for step in range(10):
        for rank in range(4):
            at, place = 1000 * US * step, {"process": 100 + rank, "thread": 100 + rank, "device": rank}
            ready = at + (200 + late_us * (rank == late)) * US
            trace.launch("gemm", at + 5 * US, ready, api_at=at, **place)
            end = at + (200 + late_us + 100) * US
            if not together:
                ready, end = at + (300 + 150 * rank) * US, at + (400 + 150 * rank) * US
            if alike or rank or step:
                trace.launch(REDUCE, ready, end, api_at=at + 10, stream=20, **place)
    notes = analyse(read(trace.write(folder / "trace.sqlite"))).notes
    return [note for note in notes if "kernels that communicate wait" in note]


def exchange(
    folder: Path, starts_us: Sequence[int], ends_us: Sequence[int], *, steps: int, turns: bool
) -> list[str]:
    """The notes on ranks whose exchanges begin and end so; with turns they change places from step to step."""
    trace, size = TraceBuilder(), len(starts_us)
    for rank in range(size):
        trace.board(f"{rank}" * 4, "NVIDIA H100", process=100 + rank, ordinal=rank)
    for step in range(steps):
        for rank in range(size):
            at, place = 1000 * US * step, {"process": 100 + rank, "thread": 100 + rank, "device": rank}
            role = (rank + step) % size if turns else rank
            start, end = at + starts_us[role] * US, at + ends_us[role] * US
            trace.launch("gemm", at + 5 * US, start, api_at=at, **place)
            trace.launch(REDUCE, start, end, api_at=at + 10, stream=20, **place)
    notes = analyse(read(trace.write(folder / "trace.sqlite"))).notes
    return [note for note in notes if "kernels that communicate wait" in note]


@pytest.mark.parametrize("late", [0, 2])
def test_the_rank_that_all_wait_for_is_named_with_how_much_it_is_late(tmp_path: Path, late: int) -> None:
    """Three ranks of four wait 300 of their 400 us: 900 of 1,300 us."""
    (note,) = ranks(tmp_path, late_us=300, late=late)

    assert f"device {late} is the last in 10 of 10 exchanges, by 300 us on average" in note
    assert note.startswith("kernels that communicate wait for 69.2 % of their time")


@pytest.mark.parametrize("changed", [{"late_us": 0}, {"late_us": 20}])
def test_ranks_that_are_ready_together_wait_for_nobody(tmp_path: Path, changed: dict[str, int]) -> None:
    assert ranks(tmp_path, **changed) == []


def test_exchanges_that_cannot_be_matched_prove_nothing(tmp_path: Path) -> None:
    assert ranks(tmp_path, late_us=300, alike=False) == []
    assert ranks(tmp_path, late_us=300, together=False) == []


def test_groups_that_exchange_for_themselves_do_not_wait_for_one_another(tmp_path: Path) -> None:
    """Two groups of tensor parallelism: one begins 60 us later, and ends 60 us later."""
    starts, ends = (200, 200, 260, 260), (300, 300, 360, 360)

    assert exchange(tmp_path, starts, ends, steps=10, turns=False) == []


def test_ranks_that_are_late_in_turn_are_not_blamed_one_by_one(tmp_path: Path) -> None:
    (note,) = exchange(tmp_path, (500, 200, 200, 200), (600, 600, 600, 600), steps=12, turns=True)

    assert note.endswith("the last one changes, and none causes half of it; compare one step on all devices")


def test_ends_that_differ_by_less_than_the_starts_are_those_of_one_exchange(tmp_path: Path) -> None:
    (note,) = exchange(tmp_path, (200, 200, 205, 500), (510, 512, 515, 511), steps=10, turns=False)

    assert "device 3 is the last in 10 of 10 exchanges, by 300 us on average" in note
