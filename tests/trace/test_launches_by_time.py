"""A launch whose API call is missing counts in the round that it ran in."""

from __future__ import annotations

import pytest

from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.model.values import Subject
from pytest_nsight.trace.graph_captures import measure_captured
from pytest_nsight.trace.measures import measure
from pytest_nsight.trace.run_summary import summarise
from tests.trace.test_run_summary import manifest
from tests.trace.trace_builder import TraceBuilder

ROUNDS = (100, 200, 300)
PROCESS = 100


def record() -> TraceBuilder:
    """Three rounds with a launch each whose call is known."""
    trace = TraceBuilder()
    for start in ROUNDS:
        trace.range("test_x", start, start + 90, payload=start).launch(
            "known", start + 10, start + 30, api_at=start + 1
        )
    return trace


def kernel_times(trace: TraceBuilder, tmp_path, parts=((), (), ())):
    recorded = read(trace.write(tmp_path / "t.sqlite"))
    measured = measure(recorded, rounds={PROCESS: set(ROUNDS)})
    summaries, problems = summarise(manifest(*parts), measured, measure_captured(recorded))
    assert problems == {}
    return {one.subject: one.rounds["kernel"] for one in summaries}


def test_it_counts_in_each_round(tmp_path):
    trace = record()
    for start in ROUNDS:
        trace.launch("lost", start + 40, start + 80)

    assert kernel_times(trace, tmp_path) == {Subject("test_x.py::test_x"): (60, 60, 60)}
    (note,) = measure(read(tmp_path / "t.sqlite"), rounds={PROCESS: set(ROUNDS)}).notes
    assert note.startswith("3 of 6 launches have no API call in the recording (lost): they count in the rounds")


def test_it_counts_in_no_part(tmp_path):
    trace = record().range("test_x/part", 135, 185, payload=7).launch("lost", 140, 180)

    times = kernel_times(trace, tmp_path, ([(7, "part")], (), ()))

    assert times == {Subject("test_x.py::test_x"): (60, 20, 20), Subject("test_x.py::test_x", "part"): (0,)}


@pytest.mark.parametrize(
    ("start", "end", "where"),
    [
        (5, 50, {}),
        (95, 120, {}),
        (180, 195, {}),
        (140, 180, {"process": 2}),
    ],
    ids=["before the rounds", "over the start of one", "over the end of one", "of another process"],
)
def test_what_ran_not_wholly_in_a_round_of_its_process_counts_in_none(tmp_path, start, end, where):
    trace = record().launch("lost", start, end, **where)

    assert kernel_times(trace, tmp_path) == {Subject("test_x.py::test_x"): (20, 20, 20)}
    (note,) = measure(read(tmp_path / "t.sqlite")).notes
    assert "is in no range (lost)" in note


def test_ranges_of_the_test_around_and_outside_of_its_rounds_are_no_rounds(tmp_path):
    trace = record().range("outer", 50, 500, payload=999).range("of the warm-up", 10, 40, payload=998)
    trace.launch("lost", 15, 35)
    for start in ROUNDS:
        trace.launch("lost", start + 40, start + 80)

    assert kernel_times(trace, tmp_path) == {Subject("test_x.py::test_x"): (60, 60, 60)}
    notes = measure(read(tmp_path / "t.sqlite"), rounds={PROCESS: set(ROUNDS)}).notes
    assert any(note.startswith("3 of 7 launches have no API call") for note in notes)


def test_rounds_of_two_processes_at_one_time_hold_their_own_launches(tmp_path):
    trace = record()
    for start in ROUNDS:
        trace.range("test_x", start - 20, start + 95, payload=start, process=2)
        trace.launch("lost", start + 40, start + 80).launch("lost", start + 40, start + 85, process=2)

    rounds = {PROCESS: set(ROUNDS), 2: set(ROUNDS)}
    ranges = measure(read(trace.write(tmp_path / "t.sqlite")), rounds=rounds).ranges

    assert ranges.groupby("process")["kernel_ns"].apply(list).to_dict() == {PROCESS: [60] * 3, 2: [45] * 3}


def test_what_no_test_has_launched_counts_in_none(tmp_path):
    trace = record().migration(140, 180, 4096)

    measured = measure(read(trace.write(tmp_path / "t.sqlite")), rounds={PROCESS: set(ROUNDS)})

    assert measured.ranges["copies"].sum() == 0
