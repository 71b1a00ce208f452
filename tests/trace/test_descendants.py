"""Several processes and boards in one recording: whose launch is it, and where did it run?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.values import Subject
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.manifest_events import Round
from pytest_nsight.protocol.phase_reports import PhaseReport
from pytest_nsight.trace.process_record import ProcessRecord, summarise_records
from pytest_nsight.trace.rank_summary import join_manifests
from tests.trace.trace_builder import TraceBuilder

A, B = "GPU-aaaaaaaa", "GPU-bbbbbbbb"
CHILD = 777

Reader = Callable[[TraceBuilder], Trace]


@pytest.fixture
def recorded(tmp_path: Path) -> Reader:
    return lambda builder: read(builder.write(tmp_path / "trace.sqlite"))


def manifest(pid: int, board: str, cases: Mapping[str, int], **more: Any) -> Manifest:
    """A worker that measured so many rounds of each case, numbered from 1."""
    ids = iter(range(1, 1000))
    rounds = tuple(
        Round(next(ids), case, (), 0, 100, 0, cold_cache=True)
        for case, count in cases.items()
        for _ in range(count)
    )
    known: dict[str, Any] = {
        "run": "s/001", "session": "s", "recorded": "", "commit": "", "pid": pid, "device": "NVIDIA H200",
        "board": board, "environment": {"collector": "nsys"}, "started": tuple(cases), "ended": tuple(cases),
        "rounds": rounds, "reports": (), "faults": (), "exit_code": 0,
    }  # fmt: skip
    return Manifest(**(known | more))


def two_workers(vintage: str = "2025.3") -> TraceBuilder:
    """Two processes whose ranges, ids, correlations and ordinals are all the same, each on a board of its own."""
    trace = TraceBuilder(vintage)
    for process, uuid, length in ((100, A, 10), (200, B, 30)):
        trace.board(uuid, "NVIDIA H200", process=process if vintage >= "2025" else None)
        trace.range("case", 0, 100, payload=1, process=process, thread=process)
        trace.launch("k", 20, 20 + length, api_at=5, process=process, thread=process, correlation=7)
    return trace


def test_equal_ranges_and_correlations_of_two_processes_are_kept_apart(recorded: Reader) -> None:
    trace = recorded(two_workers())
    records = [
        ProcessRecord(manifest(pid, board, {case: 1}), trace, cases=(case,))
        for pid, board, case in ((100, A, "t.py::one"), (200, B, "t.py::two"))
    ]

    found = summarise_records(records)

    assert [one.problems for one in found] == [{}, {}]
    assert [(s.subject.case, s.board, s.rounds["kernel"]) for one in found for s in one.summaries] == [
        ("t.py::one", A, (10,)),
        ("t.py::two", B, (30,)),
    ]
    assert [one.notes for one in found] == [(), ()]


def test_a_worker_on_another_board_than_it_says_is_an_error(recorded: Reader) -> None:
    trace = recorded(two_workers())
    records = [ProcessRecord(manifest(pid, A, {"t.py::one": 1}), trace) for pid in (100, 200)]

    right, wrong = summarise_records(records)

    assert [summary.board for summary in right.summaries] == [A]
    assert wrong.summaries == ()
    assert re.search(f"kernels ran on {B}, but .* of {A}", wrong.problems["t.py::one"])


def test_an_export_that_numbers_boards_for_all_processes_alike_proves_nothing(recorded: Reader) -> None:
    """Before 2025, nsys does not record which board a process calls 0; the worker's own record counts."""
    trace = recorded(two_workers("2024.2"))

    (found,) = summarise_records([ProcessRecord(manifest(200, B, {"t.py::one": 1}), trace)])

    assert found.problems == {}
    assert [summary.board for summary in found.summaries] == [B]


def test_a_process_on_two_boards_is_told(recorded: Reader) -> None:
    trace = TraceBuilder().range("case", 0, 100, payload=1)
    trace.board(A, "NVIDIA H200", process=100).board(B, "NVIDIA H200", ordinal=1, process=100)
    trace.launch("k", 10, 20, api_at=5).launch("k", 30, 40, api_at=25, device=1)

    (found,) = summarise_records([ProcessRecord(manifest(100, A, {"t.py::one": 1}), recorded(trace))])

    assert found.problems == {}
    assert [note for note in found.notes if "several boards" in note and A in note]


def spawned(trace: TraceBuilder) -> TraceBuilder:
    """A child of process 100: two launches while that has its round open, one after it."""
    # The first correlation is one of the parent's, too.
    for at, link in ((10, 7), (50, 8), (150, 9)):
        trace.launch("child_kernel", at + 3, at + 8, api_at=at, process=CHILD, thread=CHILD, correlation=link)
    return trace


def test_a_spawned_child_s_launches_belong_to_its_worker_s_round(recorded: Reader) -> None:
    trace = spawned(TraceBuilder().range("case", 0, 100, payload=1))
    trace.launch("k", 20, 25, api_at=5, correlation=7)

    (found,) = summarise_records([ProcessRecord(manifest(100, "", {"t.py::one": 1}), recorded(trace))])

    (summary,) = found.summaries
    assert {use.shape.name: use.count for use in summary.shapes} == {"k": 1, "child_kernel": 2}
    assert summary.rounds["kernel"] == (15,)


def test_of_several_workers_the_one_that_started_it_gets_the_child_s_launches(recorded: Reader) -> None:
    trace = recorded(spawned(two_workers()))
    first, second = manifest(100, "", {"t.py::one": 1}), manifest(200, "", {"t.py::two": 1})

    known = summarise_records([ProcessRecord(first, trace), ProcessRecord(second, trace, children={CHILD: 200})])
    unknown = summarise_records([ProcessRecord(first, trace), ProcessRecord(second, trace)])

    assert [s.rounds["kernel"] for one in known for s in one.summaries] == [(10,), (40,)]
    assert [s.rounds["kernel"] for one in unknown for s in one.summaries] == [(10,), (30,)]
    assert [note for one in unknown for note in one.notes if f"3 launches of process {CHILD}" in note]
    assert not [note for one in known for note in one.notes]


def two_ranks(rounds: tuple[tuple[int, int], ...]) -> TraceBuilder:
    """An all-reduce on two boards; `rounds` are the kernel times of rank 0 and 1."""
    trace = TraceBuilder()
    for rank, (process, uuid) in enumerate(((100, A), (200, B))):
        trace.board(uuid, "NVIDIA H200", ordinal=rank, process=process)
        for number, lengths in enumerate(rounds):
            at = number * 1000
            trace.range("case", at, at + 900, payload=number + 1, process=process, thread=process)
            trace.launch(
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)",
                at + 10, at + 10 + lengths[rank], api_at=at + 5, process=process, thread=process, device=rank,
            )  # fmt: skip
    return trace


def ranked(own: list[Manifest], trace: Trace) -> ProcessRecord:
    return ProcessRecord(join_manifests(own), trace, cases=("t.py::one",), ranks=tuple((one, trace) for one in own))


def test_a_round_costs_what_it_costs_the_slowest_rank(recorded: Reader) -> None:
    trace = recorded(two_ranks(((10, 30), (50, 20), (40, 40))))
    own = [manifest(100, A, {"t.py::one": 3}), manifest(200, B, {"t.py::one": 3})]

    (found,) = summarise_records([ranked(own, trace)])

    rows = {summary.subject: summary for summary in found.summaries}
    assert {subject.part: row.rounds["kernel"] for subject, row in rows.items()} == {
        "": (30, 50, 40),
        "rank 0": (10, 50, 40),
        "rank 1": (30, 20, 40),
    }
    assert {subject.part: row.board for subject, row in rows.items()} == {"": f"{A}+{B}", "rank 0": A, "rank 1": B}
    assert all([use.count for use in row.shapes] == [1] for row in rows.values())
    assert rows[Subject("t.py::one")].environment["ranks"] == "2"
    assert found.problems == {}


def test_ranks_out_of_step_are_no_measurement(recorded: Reader) -> None:
    trace = recorded(two_ranks(((10, 30), (50, 20))))
    own = [manifest(100, A, {"t.py::one": 2}), manifest(200, B, {"t.py::one": 1})]

    (found,) = summarise_records([ranked(own, trace)])

    assert found.summaries == ()
    assert "the ranks measured 2, 1 rounds" in found.problems["t.py::one"]


def test_a_rank_on_the_wrong_board_is_named(recorded: Reader) -> None:
    """What happens to a test that forgets its LOCAL_RANK: both ranks would crowd one board."""
    trace = recorded(two_ranks(((10, 30),)))
    own = [manifest(100, A, {"t.py::one": 1}), manifest(200, A, {"t.py::one": 1})]

    (found,) = summarise_records([ranked(own, trace)])

    assert found.summaries == ()
    assert found.problems["t.py::one"].startswith(f"rank 1: its kernels ran on {B}")


def report(case: str, outcome: str, stop: float) -> PhaseReport:
    return PhaseReport(
        case, {"outcome": outcome, "when": "call", "stop": stop, "sections": [["Captured stdout call", "hello"]]}
    )


def test_the_rank_that_failed_first_speaks_for_all() -> None:
    later = manifest(1, A, {"x": 0, "y": 0}, reports=(report("x", "failed", 9.0), report("y", "passed", 10.0)))
    first = manifest(2, B, {"x": 0}, reports=(report("x", "failed", 8.0),))

    joined = join_manifests([later, first])

    (about_x, about_y) = ({one.case: one.report for one in joined.reports}[case] for case in ("x", "y"))
    assert about_x["stop"] == 8.0
    assert ["nsight", "this is rank 1 of 2"] in about_x["sections"]
    assert about_y["sections"] == [["Captured stdout call", "hello"]]
    assert joined.started == ("x", "y")
    assert joined.ended == ("x",)


def test_what_fails_beside_a_dying_rank_is_not_over() -> None:
    dying = manifest(1, A, {"x": 0}, ended=(), exit_code=None)
    left_alone = manifest(2, B, {"x": 0}, reports=(report("x", "failed", 8.0),))

    assert join_manifests([dying, left_alone], failed={0}).ended == ()
    assert join_manifests([dying, left_alone]).ended == ("x",)
