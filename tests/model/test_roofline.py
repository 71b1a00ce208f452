"""Limits by canaries, and what bounds a round: worked out on paper."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.model.roofline import (
    COMPUTE,
    COPY,
    MATMUL,
    MEMORY,
    Limits,
    find_bound,
    find_datasheet,
    measure_limits,
    measure_reach,
)
from pytest_nsight.model.values import RunSummary, Subject, Work

H200 = Limits(bytes_per_s=4.2e12, flops_per_s=7.9e14)


def run(
    case: str,
    work: Work | None,
    ns: tuple[int, ...],
    *,
    board: str = "GPU-a",
    part: str = "",
) -> RunSummary:
    return RunSummary(Subject(case, part), "r", "s", board, {"kernel": ns}, work=work)


def test_limits_are_those_of_copy_and_matmul_board_by_board() -> None:
    copied = Work(bytes_moved=400_000_000)
    product = Work(bytes_moved=100, flops=80_000_000_000)
    limits = measure_limits(
        [
            run(COPY, copied, (101_000, 100_000, 99_000)),
            run(COPY, copied, (200_000,)),
            run(COPY, copied, (100_000,)),
            run(MATMUL, product, (100_000,)),
            run(COPY, copied, (125_000,), board="GPU-b"),
            run("t.py::test_mine", copied, (1,)),
            run("nsight_canaries::triad", copied, (1,)),
            run(COPY, copied, (1,), part="inner"),
            run(COPY, None, (1,)),
            run(COPY, copied, (), board="GPU-c"),
            run(COPY, copied, (0, 0), board="GPU-c"),
        ]
    )

    assert limits == {"GPU-a": Limits(4e12, 8e14), "GPU-b": Limits(3.2e12, None)}
    assert measure_limits([]) == {}


@pytest.mark.parametrize(
    ("work", "resource", "least_ns"),
    [
        # RMSNorm of 65536 x 4096 bf16: 1.07 GB at 4.2 TB/s, 4 operations an element.
        (Work(2 * 65536 * 4096 * 2, 4 * 65536 * 4096), MEMORY, 255_653),
        # A product of 4096 x 4096 matrices: 2 * 4096^3 operations at 790 TFLOP/s.
        (Work(3 * 4096 * 4096 * 2, 2 * 4096**3), COMPUTE, 173_973),
        (Work(bytes_moved=4_200), MEMORY, 1),
        (Work(flops=790_000), COMPUTE, 1),
    ],
)
def test_the_longer_of_moving_and_computing_bounds(work: Work, resource: str, least_ns: float) -> None:
    bound = find_bound(work, H200)

    assert bound is not None
    assert bound.resource == resource
    assert bound.least_ns == pytest.approx(least_ns, abs=0.5)


@given(st.integers(1, 2**50), st.integers(1, 2**50))
def test_the_side_is_that_of_the_ridge(moved: int, flops: int) -> None:
    bound = find_bound(Work(moved, flops), H200)

    assert bound is not None
    intensity, ridge = flops / moved, 7.9e14 / 4.2e12
    if abs(intensity / ridge - 1) > 1e-9:
        assert bound.resource == (COMPUTE if intensity > ridge else MEMORY)


@pytest.mark.parametrize(
    ("work", "limits"),
    [
        (Work(1, 1), None),
        (Work(1, 1), Limits(4e12, None)),
        (Work(1, 1), Limits(None, 8e14)),
        (Work(0, 1), Limits(4e12, None)),
        (Work(0, 0), H200),
    ],
)
def test_a_limit_that_is_not_known_is_not_made_up(work: Work, limits: Limits | None) -> None:
    assert find_bound(work, limits) is None


def test_reach_is_the_limit_s_time_over_the_measured_one() -> None:
    work = Work(bytes_moved=420_000_000, flops=1_000_000)
    reach = measure_reach([run("t.py::a", work, (110_000, 125_000, 140_000))], "kernel", {"GPU-a": H200})

    assert reach is not None
    assert reach.share == pytest.approx(0.8)
    assert reach.bytes_per_s == pytest.approx(3.36e12)
    assert reach.flops_per_s == pytest.approx(8e9)
    assert reach.bound is not None
    assert reach.bound.resource == MEMORY


def test_each_run_is_held_against_its_own_board() -> None:
    work = Work(bytes_moved=4_000_000)
    limits = {"GPU-a": Limits(4e12), "GPU-b": Limits(2e12)}
    runs = [run("t.py::a", work, (2_000,)), run("t.py::a", work, (4_000,), board="GPU-b")]

    reach = measure_reach(runs, "kernel", limits)

    assert reach is not None
    assert reach.share == pytest.approx(0.5)


def test_without_limits_there_are_rates_and_no_share() -> None:
    reach = measure_reach([run("t.py::a", Work(4_000), (2_000,), board="some CPU")], "kernel", {})

    assert reach is not None
    assert (reach.bytes_per_s, reach.flops_per_s, reach.bound, reach.share) == (2e9, None, None, None)


def test_a_metric_that_spans_no_work_gives_way_to_kernel_time() -> None:
    one = RunSummary(
        Subject("t.py::a"), "r", "s", "b", {"kernel": (2_000,), "gap": (1,), "span": (4_000,)}, work=Work(8)
    )

    reaches = {metric: measure_reach([one], metric, {}) for metric in ("kernel", "gap", "span", "wall")}

    assert {metric: reach and reach.duration_ns for metric, reach in reaches.items()} == {
        "kernel": 2_000,
        "gap": 2_000,
        "span": 4_000,
        "wall": None,
    }


@pytest.mark.parametrize("runs", [[], [run("t.py::a", None, (5,))], [run("t.py::a", Work(1), (0, 0))]])
def test_nothing_declared_or_measured_reaches_nothing(runs: list[RunSummary]) -> None:
    assert measure_reach(runs, "kernel", {"GPU-a": H200}) is None


def test_a_datasheet_is_found_by_the_driver_s_name_or_told_by_the_recording() -> None:
    h200 = find_datasheet("NVIDIA H200", 4.81e12)
    other = find_datasheet("NVIDIA Tomorrow", 9e12)

    assert h200 is not None
    assert (h200.bytes_per_s, h200.flops_per_s) == (4.8e12, 989e12)
    assert other is not None
    assert (other.bytes_per_s, other.flops_per_s, other.source) == (
        9e12,
        None,
        "the driver, through Nsight Systems",
    )
    assert find_datasheet("some CPU") is None
