"""What the notes of a comparison say of launches, copies and waits that came, went or moved."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.compare.compare_command import compare
from tests.trace.trace_builder import TraceBuilder

STEPS = 6


def program(
    folder: Path,
    name: str,
    *,
    steps: int = STEPS,
    fills: int = 1,
    copies_in: str = "load",
    waits: int = 1,
    has_ranges: bool = True,
) -> Path:
    """Steps of 100 us: a copy, two products, sets of memory, and waits at the end of the forward pass."""
    trace = TraceBuilder()
    if has_ranges:
        trace.range("train", 0, 100_000 * steps + 10, domain="")
    for number in range(steps):
        at = 100_000 * number
        if has_ranges:
            trace.range(f"step {number}", at + 1, at + 99_000, domain="")
            trace.range("load", at + 10, at + 1_000, domain="").range("forward", at + 1_100, at + 90_000, domain="")
        trace.copy(at + 5_000, at + 6_000, 64, api_at=at + (20 if copies_in == "load" else 1_150))
        trace.launch("zero_fill", at + 900, at + 950, api_at=at + 30)
        for launch in range(2):
            start = at + 10_000 + 9_000 * launch
            trace.launch("gemm", start, start + 8_000, api_at=at + 1_200 + launch)
        for launch in range(fills):
            trace.launch("fill_kernel", at + 40_000 + launch, at + 40_001 + launch, api_at=at + 1_300 + launch)
        for wait in range(waits):
            trace.call("cudaDeviceSynchronize_v3020", at + 50_000 + 100 * wait, at + 50_010 + 100 * wait)
    return trace.write(folder / f"{name}.sqlite")


def notes_of(before: Path, after: Path) -> list[str]:
    return [note for note in compare(before, after).notes if note.startswith(("launches and waits", "moved"))]


@pytest.mark.parametrize("steps", [STEPS, STEPS + 1])
def test_the_same_program_changed_nothing(tmp_path: Path, steps: int) -> None:
    assert notes_of(program(tmp_path, "a"), program(tmp_path, "b", steps=steps)) == []


@pytest.mark.parametrize("steps", [STEPS, STEPS + 1])
def test_one_launch_more_in_each_step_is_named_with_its_range(tmp_path: Path, steps: int) -> None:
    found = notes_of(program(tmp_path, "a"), program(tmp_path, "b", steps=steps, fills=2))

    assert found == ["launches and waits of one forward that changed: fill_kernel 1 -> 2"]


def test_a_new_wait_is_named_though_no_total_changed(tmp_path: Path) -> None:
    found = notes_of(program(tmp_path, "a", waits=0), program(tmp_path, "b", waits=1))

    assert found == ["launches and waits of one forward that changed: cudaDeviceSynchronize 0 -> 1"]


def test_a_copy_that_moved_is_named_with_both_ranges(tmp_path: Path) -> None:
    found = notes_of(program(tmp_path, "a"), program(tmp_path, "b", copies_in="forward"))

    assert found == ["moved from load to forward: memcpy HtoD (pinned to device)"]


def test_without_ranges_the_whole_is_counted_unless_the_steps_are_others(tmp_path: Path) -> None:
    before = program(tmp_path, "a", has_ranges=False)
    more_fills = program(tmp_path, "b", has_ranges=False, fills=2)
    more_steps = program(tmp_path, "c", has_ranges=False, steps=STEPS + 1)

    assert notes_of(before, more_fills) == ["launches and waits that changed: fill_kernel 6 -> 12"]
    assert notes_of(before, more_steps) == []


def test_a_trace_that_lost_kernels_says_nothing_of_counts(tmp_path: Path) -> None:
    before = program(tmp_path, "a")
    trace = TraceBuilder()
    for number in range(STEPS):
        at = 100_000 * number
        trace.range("step", at, at + 90_000, domain="").launch("gemm", at + 100, at + 200, api_at=at + 10)
        trace.call("cudaLaunchKernel_v7000", at + 50, at + 60)

    assert notes_of(before, trace.write(tmp_path / "b.sqlite")) == []


def steps_with_work_behind(folder: Path, name: str, *, steps: int, extra: int = 0, clears: int = 1) -> Path:
    """Ranges around the forward pass alone: the backward pass and the optimizer launch outside of every range."""
    trace = TraceBuilder()
    for number in range(steps):
        at = 100_000 * number
        trace.range("forward", at + 10, at + 40_000, domain="")
        for launch in range(12 + (extra if number == 0 else 0)):
            start = at + 100 + 100 * launch
            trace.launch("gemm", start, start + 50, api_at=at + 20 + launch)
        trace.launch("gemm_backward", at + 60_000, at + 61_000, api_at=at + 50_000)
        trace.launch("adam", at + 62_000, at + 63_000, api_at=at + 50_100)
        for launch in range(clears):
            trace.memset(at + 64_000 + launch, at + 64_001 + launch, 64, api_at=at + 50_200 + launch)
    return trace.write(folder / f"{name}.sqlite")


def test_more_steps_change_nothing_of_what_is_launched_outside_of_every_range(tmp_path: Path) -> None:
    before = steps_with_work_behind(tmp_path, "a", steps=STEPS)

    assert notes_of(before, steps_with_work_behind(tmp_path, "b", steps=STEPS + 2)) == []


def test_work_outside_of_every_range_is_compared_where_all_ranges_are_as_many(tmp_path: Path) -> None:
    before = steps_with_work_behind(tmp_path, "a", steps=STEPS)
    (note,) = notes_of(before, steps_with_work_behind(tmp_path, "b", steps=STEPS, clears=3))

    assert note.startswith("launches and waits outside of every range that changed: memset")
    assert note.endswith("6 -> 18")


def test_one_launch_more_in_one_of_many_ranges_shows_in_the_numbers(tmp_path: Path) -> None:
    before = steps_with_work_behind(tmp_path, "a", steps=400)
    found = notes_of(before, steps_with_work_behind(tmp_path, "b", steps=400, extra=1))

    assert found == ["launches and waits of one forward that changed: gemm 12 -> 12.0025"]
