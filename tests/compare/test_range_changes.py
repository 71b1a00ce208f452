"""Ranges of two traces: layers are paired, sums are judged, and unchanged code is no regression."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pytest_nsight.collectors.open_recording import load_trace
from pytest_nsight.compare.changes import Changes, Group
from pytest_nsight.compare.compare_command import compare
from pytest_nsight.compare.range_changes import compare_ranges, pair_interval, welch_interval
from tests.trace.trace_builder import TraceBuilder

LAYERS_NS = (500, 900, 20_000, 3000, 70_000, 1500, 8000, 40_000, 600, 5000)
"""Device times of the layers of one model."""


def layers(path: Path, times_ns: Sequence[float], *, label: str = "linear", kernels: int = 1) -> Path:
    """A range for each time, with kernels that share it."""
    trace = TraceBuilder()
    for number, time_ns in enumerate(times_ns):
        at = 200_000 * number
        trace.range(label, at, at + 100_000, domain="torch")
        for part in range(kernels):
            start = at + 10 + part * 20_000
            trace.launch("gemm_kernel", start, start + round(time_ns / kernels), api_at=at + 1 + part)
    return trace.write(path)


def interval_of(changes: Changes, label: str) -> tuple[float | None, float | None]:
    (row,) = [row for row in changes.rows if row.group is Group.RANGE and row.name == label]
    return row.low, row.high


def test_layers_of_different_lengths_are_compared_one_by_one(tmp_path: Path) -> None:
    before = layers(tmp_path / "a.sqlite", LAYERS_NS)
    after = layers(tmp_path / "b.sqlite", [2 * time for time in LAYERS_NS])
    changes = compare(before, after)

    assert interval_of(changes, "linear") == pytest.approx((2, 2))
    assert [text.partition(":")[0] for text in changes.regressions] == ["linear", "kernel time"]


def test_unchanged_layers_have_a_narrow_interval(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).normal(1, 0.01, len(LAYERS_NS))
    before = layers(tmp_path / "a.sqlite", LAYERS_NS)
    after = layers(tmp_path / "b.sqlite", (noise * LAYERS_NS).tolist())
    changes = compare(before, after)
    low, high = interval_of(changes, "linear")

    assert low is not None
    assert high is not None
    assert 0.95 < low < 1 < high < 1.05
    assert changes.regressions == ()


def test_ranges_that_launch_other_work_are_no_pairs(tmp_path: Path) -> None:
    """Two kernels in one place and one in another: the layers' spread is all that is known."""
    before = layers(tmp_path / "a.sqlite", LAYERS_NS)
    low, high = interval_of(compare(before, layers(tmp_path / "b.sqlite", LAYERS_NS, kernels=2)), "linear")

    assert low is not None
    assert high is not None
    assert low < 0.6
    assert high > 1.6


def test_a_doubled_total_fails_where_a_range_repeats_without_change(tmp_path: Path) -> None:
    def record(name: str, other_ns: int) -> Path:
        trace = TraceBuilder()
        for number in range(10):
            at = 10_000 * number
            trace.range(f"step#{number}", at, at + 5000).launch("a", at + 10, at + 1010, api_at=at + 1)
            trace.launch("b", at + 5100, at + 5100 + other_ns, api_at=at + 5050)
        return trace.write(tmp_path / name)

    (sentence,) = compare(record("a.sqlite", 1000), record("b.sqlite", 3001)).regressions

    assert sentence == "kernel time: +100 %, band 5 %; judged by the sum of 20 launches, without an interval"


def test_one_slow_launch_among_many_steps_fails_neither_the_range_nor_the_sum(tmp_path: Path) -> None:
    before = layers(tmp_path / "a.sqlite", [5000] * 20)
    changes = compare(before, layers(tmp_path / "b.sqlite", [5000] * 12 + [30_000] + [5000] * 7))

    low, high = interval_of(changes, "linear")
    assert low is not None
    assert high is not None
    assert low < 1.05 < high
    assert changes.regressions == ()
    (note,) = [note for note in changes.notes if "by its sum" in note]
    assert note.startswith(
        "kernel time (+25.0 %) is not judged by its sum: it changed within linear, whose interval ("
    )


@pytest.mark.parametrize(("kernel_ns", "copy_ns"), [(26_000, 14_000), (26_000, 20_000)])
def test_kernels_that_slow_in_every_step_fail_whatever_the_copies_do(
    tmp_path: Path, kernel_ns: int, copy_ns: int
) -> None:
    def record(name: str, kernel_ns: int, copy_ns: int) -> Path:
        trace = TraceBuilder()
        for number in range(20):
            at = 100_000 * number
            trace.range("step", at, at + 90_000).launch("a", at + 10, at + 10 + kernel_ns, api_at=at + 1)
            trace.copy(at + 50_000, at + 50_000 + copy_ns, 4096, api_at=at + 2)
        return trace.write(tmp_path / name)

    changes = compare(record("a.sqlite", 20_000, 20_000), record("b.sqlite", kernel_ns, copy_ns))

    assert "kernel time: +30.0 %" in " ".join(changes.regressions)


def test_totals_of_other_numbers_of_steps_are_not_judged_and_a_note_says_why(tmp_path: Path) -> None:
    before = layers(tmp_path / "a.sqlite", [5000] * 10)
    changes = compare(before, layers(tmp_path / "b.sqlite", [5000] * 20))

    assert changes.regressions == ()
    (note,) = [note for note in changes.notes if "kernel time is not judged" in note]
    assert "kernel time is not judged: it is the sum of 10 launches in the baseline and of 20 in" in note
    assert "record the same number in both" in note


@pytest.mark.parametrize(("old", "new"), [(3, 4), (4, 3), (4, 5), (4, 6), (1, 3), (5, 6)])
def test_equal_steps_in_other_numbers_are_no_regression(tmp_path: Path, old: int, new: int) -> None:
    before = layers(tmp_path / "a.sqlite", [5000] * old)
    changes = compare(before, layers(tmp_path / "b.sqlite", [5000] * new))

    assert changes.regressions == ()
    (note,) = [note for note in changes.notes if "kernel time is not judged" in note]
    assert f"linear occurs {old} and {new} times; record the same number in both" in note


def test_short_ranges_in_other_numbers_hide_no_lost_fusion(tmp_path: Path) -> None:
    def record(name: str, kernels: int, short: int) -> Path:
        trace = TraceBuilder().range("run", 0, 900_000)
        for number in range(kernels):
            trace.launch("mul", 30_000 * number, 30_000 * number + 20_000, api_at=10 + number)
        for number in range(short):
            at = 1_000_000 + 1000 * number
            trace.range("opt", at, at + 500).launch("add", at + 600, at + 900, api_at=at + 1)
        return trace.write(tmp_path / name)

    changes = compare(record("a.sqlite", 10, 2), record("b.sqlite", 20, 4))

    assert any(text.startswith("kernel time: +100 %") for text in changes.regressions)


def test_the_note_on_missing_intervals_gives_the_numbers_of_the_ranges(tmp_path: Path) -> None:
    before = layers(tmp_path / "a.sqlite", [5000] * 3)
    notes = compare(before, layers(tmp_path / "b.sqlite", [5000] * 4)).notes

    assert (
        "no change has an interval, as no range occurs at least 5 times in both traces: linear occurs 3 and 4 times"
        in notes
    )


@pytest.mark.parametrize(
    ("old", "new", "kernels"), [(3, 3, 4), (4, 3, 4), (4, 3, 1), (3, 4, 4), (1, 3, 1), (6, 3, 1)]
)
def test_fewer_than_five_slower_steps_are_judged_by_their_means(
    tmp_path: Path, old: int, new: int, kernels: int
) -> None:
    before = layers(tmp_path / "a.sqlite", [8000, 8100, 7900, 8000, 8050, 8000][:old])
    after = layers(tmp_path / "b.sqlite", [10_000, 10_200, 9900, 10_000][:new], kernels=kernels)
    (sentence, *others) = (text for text in compare(before, after).regressions if text.startswith("linear"))

    assert not others
    assert sentence.endswith(
        "ranges each, without an interval" if old == new else f"{new} ranges, without an interval"
    )


def test_a_lost_fusion_in_three_steps_is_found_though_its_children_have_intervals(tmp_path: Path) -> None:
    def record(name: str, parts: int) -> Path:
        trace = TraceBuilder()
        for number in range(3):
            at = 1_000_000 * number
            trace.range(f"ProfilerStep#{number}", at, at + 900_000)
            for layer in range(4):
                start = at + 10 + 100_000 * layer
                trace.range("mm", start, start + 50).launch("mm", start + 100, start + 10_100, api_at=start + 1)
                for part in range(parts):
                    end = start + 20_000 + 10_000 * part
                    trace.launch("mul", end - 6000, end, api_at=start + 60 + part)
        return trace.write(tmp_path / name)

    changes = compare(record("a.sqlite", 1), record("b.sqlite", 4))

    assert changes.regressions == (
        "ProfilerStep#*: +112 %, band 5 %; judged by the means of 3 ranges each, without an interval",
    )
    (note,) = [note for note in changes.notes if "not judged" in note]
    assert "both traces hold ProfilerStep#* 3 times" in note
    assert "record the same number" not in note


def test_a_step_that_one_trace_cut_off_is_no_regression(tmp_path: Path) -> None:
    """The mean is higher in the other trace, but the steps that both have whole are equal."""
    before = layers(tmp_path / "a.sqlite", [8000, 8000, 10])
    whole = layers(tmp_path / "b.sqlite", [8000, 8000, 8000], kernels=2)
    longer = layers(tmp_path / "c.sqlite", [8000] * 4)

    for after in (whole, longer):
        changes = compare(before, after)
        assert not any(text.startswith("linear") for text in changes.regressions)
        assert any("slower but not judged" in note and "linear" in note for note in changes.notes)


def test_other_mixtures_of_layers_are_no_regression(tmp_path: Path) -> None:
    before = layers(tmp_path / "a.sqlite", [1000, 9000, 1000])
    changes = compare(before, layers(tmp_path / "b.sqlite", [1000, 9000, 1000, 9000]))

    assert changes.regressions == ()
    assert any("slower but not judged" in note for note in changes.notes)


def test_a_single_range_is_judged_by_its_sum(tmp_path: Path) -> None:
    def record(name: str, forward_ns: int, rest_ns: int, extra: int = 0) -> Path:
        trace = TraceBuilder().range("forward", 0, 100).launch("a", 200, 200 + forward_ns, api_at=1)
        for number in range(extra):
            trace.launch("a", 20_000 + 20 * number, 20_010 + 20 * number, api_at=2 + number)
        return trace.launch("b", 60_000, 60_000 + rest_ns, api_at=200).write(tmp_path / name)

    before = record("a.sqlite", 10_000, 30_000)
    (sentence,) = compare(before, record("b.sqlite", 12_001, 28_000)).regressions
    fewer = compare(before, record("c.sqlite", 12_001, 28_000, extra=2))

    assert sentence == "forward: +20.0 %, band 5 %; judged by one launch, without an interval"
    assert fewer.regressions == ()
    assert any("slower but not judged" in note and "forward" in note for note in fewer.notes)


def test_a_small_part_that_processes_time_differently_is_no_regression(tmp_path: Path) -> None:
    """As of the softmax of h200_back_to_back: +20 % in another process of the same code, 0.5 % of the whole."""

    def record(name: str, small_ns: int) -> Path:
        trace = TraceBuilder()
        for number in range(20):
            at = 300_000 * number
            trace.range(f"softmax#{number}", at, at + 90).launch("s", at + 100, at + 100 + small_ns, api_at=at + 1)
            trace.range(f"rest#{number}", at + 9000, at + 9090)
            trace.launch("r", at + 9100, at + 209_101, api_at=at + 9001)
        return trace.write(tmp_path / name)

    before = record("a.sqlite", 5000)

    assert compare(before, record("b.sqlite", 6000)).regressions == ()
    assert len(compare(before, record("c.sqlite", 7000)).regressions) == 1


def test_times_in_whole_microseconds_may_differ_by_one(tmp_path: Path) -> None:
    before = layers(tmp_path / "a.sqlite", [3000] * 10)

    assert compare(before, layers(tmp_path / "b.sqlite", [4000] * 10)).regressions == ()
    assert len(compare(before, layers(tmp_path / "c.sqlite", [5000] * 10)).regressions) == 2
    assert len(compare(before, layers(tmp_path / "d.sqlite", [4001] * 10)).regressions) == 2


def test_the_paired_interval_holds_the_truth_as_often_as_it_says() -> None:
    generator = np.random.default_rng(7)
    held = 0
    for _ in range(1000):
        before = generator.uniform(20_000, 80_000, 30)
        old = (before * generator.lognormal(0, 0.02, 30)).astype(np.int64)
        new = (1.1 * before * generator.lognormal(0, 0.02, 30)).astype(np.int64)
        found = pair_interval(old, new)
        assert found is not None
        held += found[0] <= 1.1 <= found[1]

    assert 925 <= held <= 972


def test_one_layer_with_nearly_all_the_time_has_no_interval() -> None:
    times = np.array([10, 10, 10, 10, 10, 1_000_000], np.int64)

    assert pair_interval(times, 2 * times) is None
    assert welch_interval(times, 2 * times)[0] < 2


def wrapped_steps(
    path: Path,
    names: Sequence[str],
    kernel_ns: int,
    *,
    wrappers: Sequence[str] = (),
    domain: str = "app",
    other: str = "",
) -> Path:
    """Steps of those names with one kernel each, inside the wrappers; beside one range of another domain."""
    trace = TraceBuilder()
    length = 10_000 * len(names)
    for depth, wrapper in enumerate(wrappers):
        trace.range(wrapper, depth, length + 10_000 - depth, domain=domain)
    for number, name in enumerate(names):
        at = 1000 + 10_000 * number
        trace.range(name, at, at + 8000, domain=domain)
        trace.launch("gemm_kernel", at + 100, at + 100 + kernel_ns, api_at=at + 10)
    if other:
        trace.range("init", 1, 2, domain=other)
    return trace.write(path)


def steps_named(number: int, each: int = 1) -> list[str]:
    return [f"step#{each * index}" for index in range(number)]


@pytest.mark.parametrize("wrappers", [(), ("main",), ("main", "epoch 0"), ("main", "run", "epoch 0")])
def test_steps_are_judged_one_by_one_however_deep_they_are(tmp_path: Path, wrappers: Sequence[str]) -> None:
    before = wrapped_steps(tmp_path / "a.sqlite", steps_named(10), 1000, wrappers=wrappers)
    more = wrapped_steps(tmp_path / "b.sqlite", steps_named(12), 1000, wrappers=wrappers)
    slower = wrapped_steps(tmp_path / "c.sqlite", steps_named(8), 1200, wrappers=wrappers)

    assert compare(before, more).regressions == ()
    assert [text.partition(":")[0] for text in compare(before, slower).regressions] == ["step#*"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (steps_named(2), steps_named(3)),
        (steps_named(1), steps_named(4)),
        (steps_named(25, each=100), steps_named(35, each=100)),
    ],
)
def test_a_number_that_counts_in_one_trace_counts_in_both(
    tmp_path: Path, before: Sequence[str], after: Sequence[str]
) -> None:
    few = wrapped_steps(tmp_path / "a.sqlite", before, 1000)
    many = wrapped_steps(tmp_path / "b.sqlite", after, 1000)
    slower = wrapped_steps(tmp_path / "c.sqlite", before, 1500)

    assert compare(few, many).regressions == compare(many, few).regressions == ()
    assert [text.partition(":")[0] for text in compare(many, slower).regressions] == ["step#*"]


def test_a_second_domain_in_one_trace_renames_no_range_of_the_first(tmp_path: Path) -> None:
    before = wrapped_steps(tmp_path / "a.sqlite", steps_named(10), 1000)
    more = wrapped_steps(tmp_path / "b.sqlite", steps_named(12), 1000, other="library")
    slower = wrapped_steps(tmp_path / "c.sqlite", steps_named(8), 1200, other="library")

    assert compare(before, more).regressions == ()
    assert [text.partition(": +")[0] for text in compare(before, slower).regressions] == ["app:step#*"]


def test_a_number_that_counts_in_neither_trace_is_a_size(tmp_path: Path) -> None:
    """The batches of one trace are larger; the one that both have is unchanged."""

    def record(name: str, sizes: Sequence[int]) -> Path:
        trace = TraceBuilder()
        for number in range(12):
            at, size = 10_000 * number, sizes[number % 2]
            trace.range(f"batch {size}", at, at + 8000, domain="app")
            trace.launch("gemm_kernel", at + 100, at + 100 + 1000 * size, api_at=at + 10)
        return trace.write(tmp_path / name)

    changes = compare(record("a.sqlite", (1, 2)), record("b.sqlite", (2, 3)))

    assert {row.name for row in changes.rows if row.group is Group.RANGE} == {"batch 1", "batch 2", "batch 3"}
    assert interval_of(changes, "batch 2") == pytest.approx((1, 1))


def test_a_level_of_ranges_more_in_one_trace_takes_none_away(tmp_path: Path) -> None:
    def record(name: str, *, has_blocks: bool, kernel_ns: int) -> Path:
        trace = TraceBuilder().range("main", 0, 1_000_000, domain="app")
        for number in range(10):
            at = 1000 + 50_000 * number
            trace.range("step", at, at + 40_000, domain="app")
            for place in (at + 100, at + 20_000):
                if has_blocks:
                    trace.range("block", place - 50, place + 15_050, domain="app")
                trace.range("linear", place, place + 15_000, domain="app")
                trace.launch("gemm_kernel", place + 20, place + 20 + kernel_ns, api_at=place + 10)
        return trace.write(tmp_path / name)

    before = record("a.sqlite", has_blocks=False, kernel_ns=2000)
    after = record("b.sqlite", has_blocks=True, kernel_ns=4000)

    assert interval_of(compare(before, after), "linear") == pytest.approx((2, 2))
    assert any(text.startswith("linear: +100 %") for text in compare(before, after).regressions)


def test_a_range_inside_another_of_its_label_does_not_count_again(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number in range(6):
        at = 10_000 * number
        for depth in range(4):
            trace.range("visit", at + depth, at + 8000 - depth, domain="app")
        trace.launch("gemm_kernel", at + 100, at + 1100, api_at=at + 10)
    path = trace.write(tmp_path / "a.sqlite")

    (visit,) = compare_ranges(load_trace(path), load_trace(path))

    assert (visit.count, visit.launches, visit.row.before) == ((6, 6), (6, 6), 1000)
