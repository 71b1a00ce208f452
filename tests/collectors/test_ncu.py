"""Nsight Compute: its table becomes counters, and each way in which it gives none has a sentence."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pytest_nsight.collectors.ncu.ncu_collector import CHOICE, NcuCollector, find_ncu, ncu_command
from pytest_nsight.collectors.ncu.raw_page import METRICS, base_name, parse_raw_page
from pytest_nsight.model.errors import CollectorError
from pytest_nsight.model.kernel_counters import Counter
from tests.collectors.ncu_output import SOUND, plant_ncu, raw_page

MORE_BYTES = {"dram__bytes_read.sum": "200,000,000", "launch__registers_per_thread": "64"}


def test_counters_are_read_with_thousands_separators_and_units() -> None:
    (found,) = parse_raw_page(raw_page([("void my::_scale_kernel<float, 4>(float*, int)", {})]))

    assert (found.kernel, found.launches) == ("_scale_kernel", 1)
    assert dict(found.values) == {
        "sm_throughput": 24.1,
        "memory_throughput": 81.5,
        "occupancy": 91.2,
        "l2_hit_rate": 33.4,
        "dram_bytes": 134_217_728 + 66_060_288,
        "registers": 32,
        "local_bytes": 0,
        "shared_bytes": 1024,
        "sectors_per_request": 4.0,
    }


def test_of_several_launches_the_median_counts_and_kernels_stay_apart() -> None:
    launches = [("k", {}), ("k", MORE_BYTES), ("k", MORE_BYTES), ("other", {})]

    first, second = parse_raw_page(raw_page(launches))

    assert (first.kernel, first.launches, first.get(Counter.REGISTERS)) == ("k", 3, 64)
    assert first.get(Counter.DRAM_BYTES) == 200_000_000 + 66_060_288
    assert (second.kernel, second.launches, second.get(Counter.REGISTERS)) == ("other", 1, 32)


def test_prefixed_units_count_as_bytes() -> None:
    text = raw_page([("k", {"dram__bytes_read.sum": "1.5", "dram__bytes_write.sum": "0"})])
    text = text.replace('"byte","byte","%"', '"Mbyte","byte","%"', 1)

    assert parse_raw_page(text)[0].get(Counter.DRAM_BYTES) == 1_500_000


def test_a_counter_that_the_board_lacks_is_absent() -> None:
    (found,) = parse_raw_page(
        raw_page([("k", {"lts__t_sector_hit_rate.pct": "n/a", "dram__bytes_read.sum": "nan"})])
    )

    assert found.get(Counter.L2_HIT_RATE) is None
    assert found.get(Counter.DRAM_BYTES) is None, "half of a sum is none"


@pytest.mark.parametrize(
    ("full", "base"),
    [
        ("_rms_norm_fused_kernel", "_rms_norm_fused_kernel"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::F<float>>(int, T2)",
            "vectorized_elementwise_kernel",
        ),
        ("vectorized_elementwise_kernel(MulFunctor)", "vectorized_elementwise_kernel"),
        ("(anonymous namespace)::softmax_warp_forward<float>", "softmax_warp_forward"),
        ("void cutlass::Kernel2<cutlass_80_tensorop>(Params)", "Kernel2"),
    ],
)
def test_the_function_is_known_from_any_spelling(full: str, base: str) -> None:
    assert base_name(full) == base


def test_only_the_chosen_kernels_of_rounds_are_profiled_at_the_clocks_as_they_are() -> None:
    command = ncu_command(Path("/opt/ncu"), Path("/run/ncu.csv"), ["_a_kernel<4>", "b"], ("python", "-m", "x"))

    assert command[0] == "/opt/ncu"
    assert command[-3:] == ("python", "-m", "x")
    assert "--nvtx-include=regex:pytest_nsight@.*/" in command
    assert "--nvtx-push-pop-scope=process" in command
    assert "--clock-control=none" in command
    assert "--kernel-name=regex:^(_a_kernel|b)" in command
    assert set(SOUND) == set(METRICS)


def run(folder: Path, program: Path, *kernels: str) -> NcuCollector:
    collector = NcuCollector(program, kernels)
    folder.mkdir()
    with collector.start((sys.executable, "-c", "print('worked')"), folder, folder, dict(os.environ)) as process:
        assert process.wait(60) == 0
    return collector


def test_the_worker_runs_under_ncu_and_its_table_is_read(tmp_path: Path) -> None:
    collector = run(tmp_path / "run", plant_ncu(tmp_path / "bin", raw_page([("k", {})])), "k")

    trace = collector.collect(tmp_path / "run")

    assert [one.kernel for one in collector.counters] == ["k"]
    assert len(trace.launches) == 0
    assert "worked" in (tmp_path / "run" / "worker.log").read_text()
    collector.tidy(tmp_path / "run", keep=False)
    assert not list((tmp_path / "run").glob("*.csv"))


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access the counters",
            r"may not read the GPU's counters \(ncu says \"ERR_NVGPUCTRPERM.*NVreg_RestrictProfilingToAdminUsers=0",
        ),
        ("==WARNING== No kernels were profiled.", r"no launch of my_kernel was found in a measured round"),
        ("==ERROR== ... a driver resource was unavailable ...", r"another tool reads the GPU's counters"),
        ("==ERROR== Failed to load driver", r"profiled nothing \(ncu says \"Failed to load driver\"\)"),
        ("", r"profiled nothing and says nothing"),
    ],
)
def test_why_nothing_was_profiled_is_said(tmp_path: Path, output: str, said: str) -> None:
    collector = run(tmp_path / "run", plant_ncu(tmp_path / "bin", output), "my_kernel")

    with pytest.raises(CollectorError, match=said):
        collector.collect(tmp_path / "run")


def test_ncu_is_found_by_choice_on_path_and_in_usual_folders(tmp_path: Path) -> None:
    program = plant_ncu(tmp_path / "opt/nvidia/nsight-compute/2025.1.0", "")

    assert find_ncu({"PATH": ""}, tmp_path) == program
    assert find_ncu({"PATH": str(program.parent)}, tmp_path / "nowhere") == program
    assert find_ncu({CHOICE: str(program), "PATH": ""}, tmp_path / "nowhere") == program
    with pytest.raises(CollectorError, match=r"no Nsight Compute here .*PYTEST_NSIGHT_NCU"):
        find_ncu({"PATH": ""}, tmp_path / "nowhere")
    with pytest.raises(CollectorError, match="cannot be run"):
        find_ncu({CHOICE: str(tmp_path / "missing"), "PATH": ""}, tmp_path)
