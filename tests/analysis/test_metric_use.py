"""Sampled counters by range and kernel: only samples inside count, and fewer than 20 say nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.analysis.picture import analyse
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.model.gpu_samples import GpuMetric, GpuSamples, MetricMeans
from pytest_nsight.model.trace import Trace
from pytest_nsight.report.verdict_text import describe_metrics
from pytest_nsight.show.page import View, render
from pytest_nsight.trace.metric_means import average, choose_samples
from pytest_nsight.trace.process_record import ProcessRecord, summarise_records
from tests.trace.test_descendants import manifest
from tests.trace.trace_builder import TraceBuilder

NAMES = ("SMs Active [Throughput %]", "DRAM Read Bandwidth [Throughput %]")


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """A range of 2 ms with a kernel all along, one of 2 ms without, and one of 0.5 ms; a sample each 50 us."""
    builder = TraceBuilder().board("aaaa", "H200", process=100, bytes_per_s=2 * 10**12)
    builder.range("busy", 0, 2_000_000, payload=1).launch("k", 100, 2_000_000, api_at=10)
    builder.range("quiet", 2_000_000, 4_000_000, payload=2).launch("tiny", 3_999_000, 4_000_000, api_at=2_000_010)
    builder.range("short", 4_000_000, 4_500_000, payload=3).launch("other", 4_000_100, 4_500_000, api_at=4_000_010)
    builder.metric_names(NAMES)
    for number in range(1, 91):
        at = 50_000 * number
        builder.sample(at, 90 if at <= 2_000_000 else 10, 40 if at <= 2_000_000 else 0)
    return read(builder.write(tmp_path / "t.sqlite"))


def test_each_range_and_kernel_has_the_mean_of_its_own_samples(trace: Trace) -> None:
    found = {(one.part, one.name): one.means for one in analyse(trace).metrics}

    assert found["range", "busy"].samples == 40
    assert found["range", "busy"].sm_active == pytest.approx(0.9)
    assert found["range", "quiet"].sm_active == pytest.approx(0.1)
    assert found["kernel", "k"].dram_read == pytest.approx(0.4)
    assert found["kernel", "k"].bytes_per_s == 2e12
    assert found["device", ""].sm_active == pytest.approx((40 * 0.9 + 50 * 0.1) / 90, abs=0.01)


@pytest.mark.parametrize("process", [None, 100], ids=["nsys 2024", "nsys 2025"])
def test_samples_of_boards_that_nothing_ties_to_a_process_are_left_out_with_a_note(
    process: int | None, tmp_path: Path
) -> None:
    """Exports before 2025 number the boards of a machine, and not those that a process sees."""
    builder = TraceBuilder().board("aaaa", "H200", process=process).board("bbbb", "H200")
    builder.launch("k", 100, 2_000_000, api_at=10)
    for board in range(2):
        builder.metric_names(NAMES, board=board)
        for number in range(1, 40):
            builder.sample(50_000 * number, 90, 40, board=board)
    picture = analyse(read(builder.write(tmp_path / "t.sqlite")))

    assert bool(picture.metrics) == (process is not None)
    notes = [note for note in picture.notes if "GPU metrics" in note]
    assert notes if process is None else not notes
    assert all("of 2 boards are left out" in note and "nsys 2025.3" in note for note in notes)


def test_fewer_than_20_samples_say_nothing(trace: Trace) -> None:
    found = {(one.part, one.name): one.means for one in analyse(trace).metrics}

    assert found["range", "short"] == MetricMeans(10, 50_000)
    assert found["kernel", "tiny"] == MetricMeans(0, 50_000)
    assert found["range", "short"].refusal.startswith(
        "10 samples, 20 are needed; what is shorter than the sampling"
    )


def test_the_page_has_the_table_and_leaves_out_what_no_sample_lies_in(trace: Trace) -> None:
    page = render(trace, 160, View())

    (busy,) = [line.split() for line in page.splitlines() if line.startswith("range busy")]
    assert busy[2:] == ["40", "90.0", "%", "-", "40.0", "%", "800", "-", "-", "-"]
    (short,) = [line.split() for line in page.splitlines() if line.startswith("range short")]
    assert short[2:] == ["10", *"-------"]
    assert "part that no sample lies in left out" in " ".join(page.split())
    assert "GPU metrics: one sample each 50.0 us" in page
    assert "GPU metrics" not in render(Trace(), 120, View())


def test_a_case_has_the_means_over_its_rounds(trace: Trace) -> None:
    record = ProcessRecord(manifest(100, "GPU-aaaa", {"t.py::busy": 1, "t.py::quiet": 1, "t.py::short": 1}), trace)
    (process,) = summarise_records((record,))

    assert process.metrics["t.py::busy"].sm_active == pytest.approx(0.9)
    assert describe_metrics(process.metrics["t.py::busy"]) == "SM active 90 %, DRAM read 40 % (40 samples)"
    assert "20 are needed" in describe_metrics(process.metrics["t.py::short"])


def test_a_sample_half_inside_is_not_counted() -> None:
    samples = GpuSamples(0, np.arange(100, 1100, 100), {GpuMetric.SM_ACTIVE: np.full(10, 50)})

    chosen = choose_samples(samples, np.array([250, 700]), np.array([505, 790]))

    assert samples.time_ns[chosen].tolist() == [400, 500, 800], "(300, 400], (400, 500]; (700, 800] by nine tenths"


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), max_size=12),
)
def test_a_sample_counts_by_nine_tenths_of_its_time(steps: list[int], gaps: list[tuple[int, int]]) -> None:
    times = np.cumsum(np.array(steps, np.int64))
    samples = GpuSamples(0, times, {GpuMetric.SM_ACTIVE: np.full(len(times), 50)})
    edges = np.cumsum(np.array([step for pair in gaps for step in pair], np.int64))
    start_ns, end_ns = edges[::2], edges[1::2]

    chosen = choose_samples(samples, start_ns, end_ns)

    covered = np.zeros(int(max([times[-1], *edges.tolist()])) + 1, np.bool_)
    for start, end in zip(start_ns.tolist(), end_ns.tolist(), strict=True):
        covered[start:end] = True
    for number, (low, high) in enumerate(zip(samples.start_ns.tolist(), times.tolist(), strict=True)):
        share = covered[max(low, 0) : high].sum() / max(high - low, 1)
        assert bool(chosen[number]) == (share >= 0.9) or abs(share - 0.9) < 1e-9
    assert average(samples, chosen, None).samples == chosen.sum()
