"""Communication that mostly waits for one device names it."""

from __future__ import annotations

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
