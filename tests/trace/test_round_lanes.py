"""The timeline of a round: its own launches, calls and ranges, on lanes, with the gaps between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.model.round_timeline import RoundTimeline, TimelineSpan, thin
from pytest_nsight.trace.process_record import ProcessRecord, summarise_records
from pytest_nsight.trace.round_lanes import MOST_SPANS
from tests.trace.test_descendants import manifest
from tests.trace.trace_builder import TraceBuilder

Cut = Callable[..., RoundTimeline]


@pytest.fixture
def cut(tmp_path: Path) -> Cut:
    """The timeline of the only case of a recording with so many rounds."""

    def run(builder: TraceBuilder, rounds: int = 1, board: str = "GPU-1") -> RoundTimeline:
        trace = read(builder.write(tmp_path / "trace.sqlite"))
        record = ProcessRecord(replace(manifest(100, "", {"t.py::one": rounds}), board=board), trace)
        (process,) = summarise_records((record,))
        return process.timelines["t.py::one"]

    return run


def spans(timeline: RoundTimeline, title: str, kind: str) -> list[tuple[str, int, int]]:
    """Name, start and end of the spans of one lane."""
    (lane,) = [lane for lane in timeline.lanes if (lane.title, lane.kind) == (title, kind)]
    return [(span.name, span.start_ns, span.end_ns) for span in lane.spans]


def test_kernels_copies_calls_and_parts_stand_on_their_lanes(cut: Cut) -> None:
    builder = TraceBuilder().range("case", 1000, 2000, payload=1).range("part", 1010, 1100, domain="")
    builder.launch("k", 1200, 1300, api_at=1020, stream=7).launch("m", 1250, 1400, api_at=1030, stream=13)
    builder.copy(1500, 1700, 64, api_at=1040).launch("later", 2500, 2600, api_at=2100)

    found = cut(builder)

    assert spans(found, "stream 7", "kernel") == [("k", 200, 300)]
    assert spans(found, "stream 7", "copy") == [("memcpy HtoD", 500, 700)]
    assert spans(found, "stream 13", "kernel") == [("m", 250, 400)]
    assert spans(found, "ranges", "range") == [("part", 10, 100)]
    assert [start for _, start, _ in spans(found, "CUDA calls", "call")] == [20, 30, 40]
    assert (found.wall_ns, found.kernel_ns, found.idle_ns, found.gaps) == (1000, 250, 100, ((400, 500),))


def test_calls_have_no_version_in_their_names(cut: Cut) -> None:
    builder = TraceBuilder().range("case", 0, 100, payload=1).launch("k", 30, 60, api_at=10)
    builder.call("cudaDeviceSynchronize_v3020", 20, 70)

    names = [name for name, _, _ in spans(cut(builder), "CUDA calls", "call")]
    assert names[-1] == "cudaDeviceSynchronize"


def test_a_launch_that_ends_after_its_round_lengthens_the_timeline(cut: Cut) -> None:
    builder = TraceBuilder().range("case", 0, 50, payload=1).launch("k", 100, 900, api_at=10)

    assert cut(builder).wall_ns == 900


@pytest.mark.parametrize(("board", "shown"), [("GPU-1", (3, 20)), ("Some CPU", (2, 10))])
def test_the_round_of_typical_kernel_time_is_shown(cut: Cut, board: str, shown: tuple[int, int]) -> None:
    builder = TraceBuilder()
    for number, length in enumerate((30, 10, 20), 1):
        at = 1000 * number
        builder.range("case", at, at + 100, payload=number).launch("k", at + 20, at + 20 + length, api_at=at + 5)

    found = cut(builder, rounds=3, board=board)

    assert (found.round, found.kernel_ns) == shown


def test_nested_ranges_go_below_one_another(cut: Cut) -> None:
    builder = TraceBuilder().range("case", 0, 1000, payload=1).launch("k", 20, 30, api_at=5)
    builder.range("step", 10, 500, domain="").range("forward", 20, 200, domain="").range(
        "next", 600, 700, domain=""
    )

    found = cut(builder)
    ranges = [[span.name for span in lane.spans] for lane in found.lanes if lane.kind == "range"]

    assert ranges == [["step", "next"], ["forward"]]


def test_many_launches_on_many_streams_stay_few_bars_and_none_is_lost(cut: Cut) -> None:
    builder = TraceBuilder().range("case", 0, 10_000_000, payload=1)
    for number in range(3000):
        at = 1000 + 1000 * number
        builder.launch("k", at, at + 100 + number % 7, api_at=at - 10, stream=number % 12)

    found = cut(builder)
    kernels = [span for lane in found.lanes if lane.kind == "kernel" for span in lane.spans]

    assert sum(span.count for span in kernels) == 3000
    assert sum(len(lane.spans) for lane in found.lanes) <= MOST_SPANS
    assert [lane.title for lane in found.lanes][-1] == "other streams"
    assert found.idle_ns == sum(1000 - 100 - number % 7 for number in range(2999))


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 10**6), st.integers(0, 10**4)), max_size=80),
    st.integers(2, 20),
)
def test_thinning_keeps_every_count_and_the_longest_spans(rows: list[tuple[str, int, int]], most: int) -> None:
    given_spans = [TimelineSpan(name, start, start + length) for name, start, length in rows]

    kept = thin(given_spans, most)

    assert len(kept) <= most
    assert sum(one.count for one in kept) == len(given_spans)
    assert [one.start_ns for one in kept] == sorted(one.start_ns for one in kept)
    if given_spans:
        longest = max(one.end_ns - one.start_ns for one in given_spans)
        assert max(one.end_ns - one.start_ns for one in kept) >= longest
        assert {min(one.start_ns for one in kept)} == {min(one.start_ns for one in given_spans)}
