"""The suite of the validation study: exact shares of more work, each level equally often, everything runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

from benchmarks.validation_suite import gpu_kernels as gpu
from benchmarks.validation_suite.cases import CASES, INJECTABLE, K_TILES, KINDS, build_on_cpu, position_of
from benchmarks.validation_suite.injection import LEVELS, rotate, share_of
from pytest_nsight.calibrate.pool import list_processes, read_pool

ROOT = Path(__file__).parents[2]
SUITE = "benchmarks/validation_suite"


def test_there_are_enough_cases_of_each_kind_and_no_two_share_a_name() -> None:
    kinds = Counter(case.kind for case in CASES)

    assert len(CASES) >= 24
    assert len({case.name for case in CASES}) == len(CASES)
    assert set(kinds) == set(KINDS)
    assert min(kinds.values()) >= 4


def test_every_level_is_an_exact_number_of_tiles_and_rows() -> None:
    for level in LEVELS:
        assert K_TILES * level % 1000 == 0
        assert 200 * level % 1000 == 0


def test_no_argument_of_a_kernel_is_one_that_triton_compiles_anew_for() -> None:
    codes = {gpu.encode(number) for number in (*LEVELS, *range(200, 8000))}

    assert 1 not in codes
    assert all(code % 16 for code in codes)


def test_in_six_runs_each_case_has_each_level_once_and_each_run_has_all_levels() -> None:
    positions, runs = range(len(INJECTABLE)), range(4, 10)

    for position in positions:
        assert Counter(rotate(position, run) for run in runs) == Counter(LEVELS)
    for run in runs:
        counts = Counter(rotate(position, run) for position in positions)
        assert set(counts) == set(LEVELS)
        assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize(
    ("wanted", "name", "share"),
    [
        ("", "copy-65MB", 0),
        ("copy=+1%", "copy-65MB", 10),
        ("copy=0.5 %", "copy-65MB", 5),
        ("dot=+2%, copy-65=+5%", "copy-65MB", 50),
        ("dot=+2%", "copy-65MB", 0),
    ],
)
def test_a_case_is_told_its_share(wanted: str, name: str, share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSIGHT_INJECT", wanted)

    assert share_of(name, 0, "s/001") == share


@pytest.mark.parametrize("wanted", ["copy", "copy=4%", "copy=much"])
def test_a_wrong_injection_is_refused(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSIGHT_INJECT", wanted)

    with pytest.raises(ValueError, match=r'give "rotate", or NAME=LEVEL with one of 0%, 0\.5%, 1%, 2%, 3%, 5%'):
        share_of("copy-65MB", 0, "s/001")


def test_rotating_follows_the_number_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NSIGHT_INJECT", "rotate")

    assert [share_of("x", 2, f"s/{number:03}") for number in range(1, 7)] == [20, 30, 50, 0, 5, 10]
    assert share_of("x", 2, "") == 0


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_cpu_more_work_is_the_same_operators(kind: str) -> None:
    names = []
    for share in (0, 50):
        work = build_on_cpu(kind, share)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            work()
        names.append([event.name for event in profile.events()])

    assert names[0] == names[1]


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_the_kernels_do_what_they_say_in_the_interpreter() -> None:
    pytest.importorskip("triton", reason="Triton is not installed here; its kernels cannot be interpreted")
    done = run(
        *(
            sys.executable,
            "-m",
            "pytest",
            str(Path(__file__).parent),
            "-q",
            "--no-header",
            "-p",
            "no:cacheprovider",
        ),
        *("-p", "no:nsight", "-p", "no:randomly", "-o", "python_files=check_*.py"),
        TRITON_INTERPRET="1",
        CUDA_VISIBLE_DEVICES="",
    )

    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"


@pytest.mark.long
@pytest.mark.parametrize("control", ["", "reversed"])
def test_calibrate_fills_a_pool_with_the_suite(control: str, tmp_path: Path) -> None:
    pool = tmp_path / "pool.json.gz"
    done = run(
        *(sys.executable, "-m", "pytest_nsight.cli", "calibrate", "--runs", "3", "--output", str(pool), SUITE),
        *("--nsight-collector=torch", "--nsight-rounds=5", "--resamples=0", "-q", "--rootdir", str(ROOT)),
        NSIGHT_INJECT="rotate",
        NSIGHT_CONTROL=control,
        OMP_NUM_THREADS="1",
    )

    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    processes = list_processes(read_pool(pool).summaries)
    assert len(processes) == 3
    names = {subject.case for subject in processes[0].summaries if not subject.is_canary}
    assert names == {f"{SUITE}/test_validation.py::test_case[{case.kind}-{case.name}]" for case in CASES}
    assert f"3 runs of {len(CASES)} subjects" in done.stdout


def test_a_case_that_cannot_be_given_more_work_has_no_position() -> None:
    assert position_of("gelu") is None
    assert [position_of(case.name) for case in INJECTABLE] == list(range(len(INJECTABLE)))
