"""Times of steps: of single ones, which a sum over all of them hides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_nsight.analysis.picture import analyse
from pytest_nsight.analysis.step_times import StepTimes
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.show.page import View, render
from tests.trace.trace_builder import TraceBuilder

PERIOD = 10_000


def add_steps(builder: TraceBuilder, lengths: Sequence[int], process: int = 100) -> TraceBuilder:
    """Steps that begin every 10 us; the kernel of each lasts as long as it does, but for 100 ns."""
    for number, length in enumerate(lengths):
        at = PERIOD * number
        builder.range(f"step#{number}", at, at + 50, domain="", process=process, thread=process)
        builder.launch("k", at + 100, at + length, api_at=at + 10, process=process, thread=process)
    return builder


def steps_of(builder: TraceBuilder, folder: Path) -> StepTimes:
    return analyse(read(builder.write(folder / "trace.sqlite"))).steps


def test_the_first_the_median_the_95th_percentile_and_the_slowest_step_are_single_ones(tmp_path: Path) -> None:
    lengths = [3000] + [1000 + number for number in range(1, 39)] + [2000]
    times = steps_of(add_steps(TraceBuilder(), lengths), tmp_path)

    assert (times.label, times.count) == ("step#*", 40)
    assert [(one.which, one.number, one.length_ns, one.kernel_ns) for one in times.steps] == [
        ("first", 1, 3000, 2900),
        ("median", 21, 1020, 920),
        ("95 %", 39, 1038, 938),
        ("slowest", 1, 3000, 2900),
    ]
    median = times.steps[1]
    assert (median.start_ns, median.next_ns, median.host_ns) == (20 * PERIOD, PERIOD, 50)


def test_the_last_step_has_no_next_one(tmp_path: Path) -> None:
    times = steps_of(add_steps(TraceBuilder(), [1000, 1000, 1000, 1000, 9000]), tmp_path)

    assert [(one.which, one.number, one.next_ns) for one in times.steps if one.which == "slowest"] == [
        ("slowest", 5, None)
    ]


@pytest.mark.parametrize(
    ("lengths", "warm_up", "share"),
    [
        ([4000, 2000, 1000, 1000, 1000, 1000], 2, 0.6),
        ([4000, 1000, 2000, 1000, 1000, 1000], 1, 0.4),
        ([1000, 4000, 1000, 1000, 1000, 2000], 0, 0.0),
        ([1500, 1000, 1000, 1000, 1000, 1000], 0, 0.0),
    ],
)
def test_warm_up_is_what_is_long_before_the_first_step_that_is_not(
    lengths: Sequence[int], warm_up: int, share: float, tmp_path: Path
) -> None:
    times = steps_of(add_steps(TraceBuilder(), lengths), tmp_path)

    assert times.warm_up == warm_up
    assert times.warm_up_share == pytest.approx(share)


def test_each_process_counts_its_own_steps(tmp_path: Path) -> None:
    builder = add_steps(TraceBuilder(), [4000, 1000, 1000, 1000])
    times = steps_of(add_steps(builder, [5000, 4000, 1000, 7000], process=200), tmp_path)

    assert (times.count, times.warm_up) == (8, 3)
    slowest = times.steps[-1]
    assert (slowest.process, slowest.number, slowest.length_ns, slowest.next_ns) == (200, 4, 7000, None)


def test_fewer_than_five_steps_have_no_table(tmp_path: Path) -> None:
    assert steps_of(add_steps(TraceBuilder(), [1000] * 4), tmp_path) == StepTimes()
    assert steps_of(TraceBuilder().launch("k", 10, 20, api_at=5), tmp_path) == StepTimes()


def test_the_page_has_the_steps_and_says_how_many_are_of_warm_up(tmp_path: Path) -> None:
    builder = add_steps(TraceBuilder(), [4000, 2000, 1000, 1000, 1000, 1000])
    page = render(read(builder.write(tmp_path / "trace.sqlite")), 120, View())

    title = "Steps: 6 step#*; 2 steps at the beginning take over 1.5 times the median, 60 % of the time of all"
    assert title in page
    assert "median: number 5, after 40.0 us" in page
