"""Launches that left no kernel: no verdict rests on times that are not in the recording."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from pytest_nsight.compare.change_report import render_text
from pytest_nsight.compare.changes import Change, Changes, Group
from pytest_nsight.compare.compare_command import compare
from tests.trace.trace_builder import TraceBuilder

Record = Callable[..., Path]

STEPS = 10
EVERY_STEP = range(STEPS)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Ten steps with a norm of two kernels and a softmax of one; `lost` are the norms without their second."""
    numbers = itertools.count()

    def write(
        norm_ns: int = 2000, softmax_ns: int = 1000, *, lost: Collection[int] = (), all_lost: bool = False
    ) -> Path:
        trace = TraceBuilder()
        for number in EVERY_STEP:
            at = 10_000 * number
            trace.range("norm", at, at + 4000).range("softmax", at + 5000, at + 9000)
            parts = (("square", at + 100, at + 10), ("scale", at + 100 + norm_ns, at + 20))
            for position, (name, start, api_at) in enumerate(parts):
                if number in lost and (position or all_lost):
                    trace.call("cudaLaunchKernel_v7000", api_at, api_at + 2)
                else:
                    trace.launch(name, start, start + norm_ns + number % 3, api_at=api_at)
            trace.launch("softmax_kernel", at + 5100, at + 5100 + softmax_ns + number % 3, api_at=at + 5010)
        return trace.write(tmp_path / f"{next(numbers)}.sqlite")

    return write


def rows_of(changes: Changes) -> dict[str, Change]:
    return {row.name: row for row in changes.rows if row.group is Group.RANGE or row.name.endswith("time")}


def verdicts_of(changes: Changes) -> dict[str, str]:
    return {name: row.verdict for name, row in rows_of(changes).items() if row.verdict}


def test_a_range_whose_kernels_one_trace_lost_is_inconclusive_in_both_directions(record: Record) -> None:
    whole, incomplete = record(), record(lost=(1, 4, 8))

    for changes in (compare(incomplete, whole), compare(whole, incomplete)):
        assert verdicts_of(changes) == {
            "norm": "INCONCLUSIVE",
            "softmax": "UNCHANGED",
            "kernel time": "INCONCLUSIVE",
        }
        assert changes.regressions == ()
        assert rows_of(changes)["norm"].low is None


def test_a_loss_hides_no_slowdown_behind_unchanged(record: Record) -> None:
    changes = compare(record(2000), record(4000, lost=EVERY_STEP))

    assert verdicts_of(changes)["norm"] == "INCONCLUSIVE"


def test_ranges_without_a_loss_are_judged_as_ever(record: Record) -> None:
    changes = compare(record(), record(softmax_ns=3000, lost=(1, 4, 8)))

    assert verdicts_of(changes) == {"norm": "INCONCLUSIVE", "softmax": "REGRESSION", "kernel time": "INCONCLUSIVE"}
    (regression,) = changes.regressions
    assert regression.startswith("softmax: +200 %")


def test_a_loss_on_both_sides_leaves_nothing_to_judge(record: Record) -> None:
    changes = compare(record(lost=(1, 4)), record(lost=(1, 4)))

    assert verdicts_of(changes) == {"norm": "INCONCLUSIVE", "softmax": "UNCHANGED", "kernel time": "INCONCLUSIVE"}


def test_a_range_that_lost_all_its_kernels_is_still_on_both_sides(record: Record) -> None:
    changes = compare(record(lost=EVERY_STEP, all_lost=True), record())

    assert rows_of(changes)["norm"].before == 0
    assert verdicts_of(changes)["norm"] == "INCONCLUSIVE"
    assert "norm" in verdicts_of(compare(*[record(lost=EVERY_STEP, all_lost=True)] * 2))


def test_one_sentence_names_what_cannot_be_judged_with_the_reason_and_the_remedy(record: Record) -> None:
    incomplete, whole = record(lost=(1, 4, 8)), record()

    assert (
        "INCONCLUSIVE, as launches of the baseline left no kernel and times are too small: kernel time, norm; "
        "record the baseline again, as the notes above say"
    ) in compare(incomplete, whole).notes
    assert any(
        "launches of the baseline and the optimized trace left no kernel" in note and "record both again" in note
        for note in compare(incomplete, record(lost=(2,))).notes
    )
    assert not any("left no kernel" in note for note in compare(whole, whole).notes)
    # No range has an interval because of the loss: nothing else is said of it.
    assert "no range occurs" not in render_text(compare(incomplete, incomplete), 200, 15)


def test_a_kernel_that_one_trace_may_have_lost_is_not_said_to_be_new(record: Record) -> None:
    changes = compare(record(lost=EVERY_STEP), record())

    assert "kernels gained: scale, unless the baseline lacks their records" in changes.notes
    assert (
        "kernels lost: scale, unless the optimized trace lacks their records"
        in compare(record(), record(lost=EVERY_STEP)).notes
    )


def test_a_graph_of_which_one_trace_shows_nothing_is_not_judged(tmp_path: Path) -> None:
    shown, hidden = TraceBuilder(), TraceBuilder()
    for at in range(0, 100_000, 10_000):
        for trace in (shown, hidden):
            trace.range("step", at, at + 9000).launch("k", at + 100, at + 1100, api_at=at + 10)
        shown.graph_nodes([("node", at + 2000, at + 4000)], api_at=at + 30)
        hidden.call("cudaGraphLaunch_v10000", at + 30, at + 32)
    changes = compare(hidden.write(tmp_path / "hidden.sqlite"), shown.write(tmp_path / "shown.sqlite"))

    assert verdicts_of(changes) == {"step": "INCONCLUSIVE", "kernel time": "INCONCLUSIVE"}
    assert changes.regressions == ()
