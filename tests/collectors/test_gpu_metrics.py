"""Sampled GPU counters: read from exports under any numbering, and asked for only where nsys may sample."""

from __future__ import annotations

import lzma
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from pytest_nsight.collectors.base import RecordingOptions
from pytest_nsight.collectors.nsys.find import Installation
from pytest_nsight.collectors.nsys.metric_sampling import check_sampling
from pytest_nsight.collectors.nsys.profiling import profile_command
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.collectors.nsys.scrub import scrub
from pytest_nsight.model.errors import NsysError
from pytest_nsight.model.gpu_samples import GpuMetric
from tests.trace.trace_builder import TraceBuilder

RECORDING = Path(__file__).parents[1] / "data" / "recordings" / "h200_llama_block_gpu_metrics.sqlite.xz"
NAMES = ("SMs Active [Throughput %]", "GPC Clock Frequency [MHz]", "DRAM Read Bandwidth [Throughput %]")


def test_metrics_are_found_by_name_whatever_their_numbers(tmp_path: Path) -> None:
    builder = TraceBuilder().board("aaaa", "H200").metric_names(("PCIe RX", *NAMES))
    for number in range(3):
        builder.sample(1000 + 50 * number, 7, 10 * number, 1_980_000_000, 3)

    (samples,) = read(builder.write(tmp_path / "t.sqlite")).samples

    assert samples.device == 0
    assert samples.time_ns.tolist() == [1000, 1050, 1100]
    assert samples.start_ns.tolist() == [950, 1000, 1050]
    assert {metric: values.tolist() for metric, values in samples.values.items()} == {
        GpuMetric.SM_ACTIVE: [0, 10, 20],
        GpuMetric.CLOCK_MHZ: [1980] * 3,
        GpuMetric.DRAM_READ: [3] * 3,
    }


def test_each_board_has_its_own_samples(tmp_path: Path) -> None:
    builder = TraceBuilder().board("aaaa", "H200").board("bbbb", "H200", ordinal=1)
    for board, value in ((1, 80), (0, 20)):
        builder.metric_names(NAMES, board=board).sample(1000, value, 10**9, 0, board=board)

    trace = read(builder.write(tmp_path / "t.sqlite"))
    found = {trace.devices[one.device].uuid: one.values[GpuMetric.SM_ACTIVE].tolist() for one in trace.samples}

    assert found == {"GPU-aaaa": [20], "GPU-bbbb": [80]}


def test_a_share_over_100_percent_is_none(tmp_path: Path) -> None:
    builder = TraceBuilder().board("aaaa", "H200").metric_names(NAMES)
    builder.sample(1000, 255, 10**9, 1).sample(1050, 50, 10**9, 1)

    (samples,) = read(builder.write(tmp_path / "t.sqlite")).samples

    assert samples.values[GpuMetric.SM_ACTIVE].tolist() == [-1, 50]


def test_unknown_names_are_a_note_and_no_samples(tmp_path: Path) -> None:
    trace = read(TraceBuilder().metric_names(("Warp Speed",)).sample(1, 9).write(tmp_path / "t.sqlite"))

    assert trace.samples == ()
    assert "the recording has GPU metrics under names that are not known: Warp Speed" in trace.notes


def test_a_table_of_names_without_rows_is_said_to_be_empty(tmp_path: Path) -> None:
    path = TraceBuilder().metric_names(("Warp Speed",)).sample(1, 9).write(tmp_path / "t.sqlite")
    with closing(sqlite3.connect(path)) as export, export:
        export.execute("DELETE FROM TARGET_INFO_GPU_METRICS")
    trace = read(path)

    assert trace.samples == ()
    (note,) = [note for note in trace.notes if "GPU metrics" in note]
    assert note == (
        "the recording has GPU metrics, but its table TARGET_INFO_GPU_METRICS, which names them, is empty; "
        "they are left out"
    )


@pytest.mark.slow
def test_a_recording_of_an_h200_holds_what_sql_says(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    path.write_bytes(lzma.decompress(RECORDING.read_bytes()))
    wanted = {
        GpuMetric.SM_ACTIVE: "SMs Active%",
        GpuMetric.TENSOR_ACTIVE: "Tensor Active%",
        GpuMetric.DRAM_READ: "DRAM Read%",
        GpuMetric.DRAM_WRITE: "DRAM Write%",
    }
    sql = (
        "SELECT sum(value), count(*) FROM GPU_METRICS JOIN TARGET_INFO_GPU_METRICS USING (typeId, metricId) WHERE "
    )

    (samples,) = read(path).samples

    assert len(samples) == 846
    assert abs(samples.period_ns - 50_000) < 100
    with closing(sqlite3.connect(path)) as connection:
        for metric, name in wanted.items():
            ((total, count),) = connection.execute(f"{sql} metricName LIKE ?", (name,)).fetchall()
            assert (int(samples.values[metric].sum()), len(samples)) == (total, count)
    assert 1800 < float(np.median(samples.values[GpuMetric.CLOCK_MHZ])) <= 1980


def test_a_scrubbed_recording_keeps_its_samples(tmp_path: Path) -> None:
    builder = TraceBuilder().board("aaaa", "H200").metric_names(NAMES).sample(1000, 1, 10**9, 2)
    source = builder.write(tmp_path / "t.sqlite")

    scrub(source, tmp_path / "s.sqlite")

    assert len(read(tmp_path / "s.sqlite").samples[0]) == 1


Planted = Callable[[str], Installation]


@pytest.fixture
def answering(tmp_path: Path) -> Planted:
    """An nsys that answers this to the question for boards."""

    def plant(answer: str) -> Installation:
        program = tmp_path / "nsys"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
        program.chmod(0o755)
        return Installation(program, (2025, 3, 1))

    return plant


def test_sampling_works_where_a_board_is_listed(answering: Planted) -> None:
    check_sampling(
        answering("Possible --gpu-metrics-devices values are:\n\t0: NVIDIA H200 PCI[0000:00:06.0]\n\tall")
    )


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            "No permission. For more details, please visit https://developer.nvidia.com/ERR_NVGPUCTRPERM",
            "this user may not profile the GPU; allow it with the driver's option NVreg_RestrictProfiling",
        ),
        (
            "GPU metrics sampling hardware unit is already in use by another instance of nsys.",
            "another program samples the counters of this GPU; end it",
        ),
        (
            "Possible --gpu-metrics-device values are:\n\tNVIDIA GPUs not found, feature is not available",
            'finds no board to sample (it says "NVIDIA GPUs not found, feature is not available")',
        ),
    ],
)
def test_where_nsys_may_not_sample_it_is_quoted(answering: Planted, answer: str, said: str) -> None:
    with pytest.raises(NsysError) as raised:
        check_sampling(answering(answer))

    assert "--nsight-gpu-metrics: " in str(raised.value)
    assert said in str(raised.value)
    assert "measure without the option" in str(raised.value)


def test_nsys_is_given_the_options_only_if_wanted() -> None:
    nsys = Installation(Path("/usr/bin/nsys"), (2025, 3, 1))

    def options(recorded: RecordingOptions) -> set[str]:
        command = profile_command(nsys, Path("/a.nsys-rep"), ("true",), recorded=recorded)
        return {argument for argument in command if "metrics" in argument}

    assert options(RecordingOptions()) == set()
    assert options(RecordingOptions(gpu_metrics=True)) == {
        "--gpu-metrics-device=all",
        "--gpu-metrics-frequency=20000",
    }
