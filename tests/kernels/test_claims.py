"""No mark of a perf test claims what the stored baselines do not carry."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.claims import Collected, Record, find_broken_claims, find_worst_factor
from pytest_nsight.protocol.mark import Mark

ROOT = Path(__file__).parents[2]

FUSED, UNFUSED = "perf_tests/test_op.py::test_op[fused-4]", "perf_tests/test_op.py::test_op[unfused-4]"


def collected(mark: Mark) -> Collected:
    return Collected(mark, (("fused",), ("4",)))


def record(case: str, *times_ns: float, launches: int = 1) -> Record:
    return Record(case, frozenset({launches}), times_ns, boards=1)


@pytest.mark.slow
def test_the_stored_runs_carry_every_claim_in_the_marks() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.claims"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    models = [path.name for path in (ROOT / "baselines").iterdir() if path.is_dir()]
    assert len(models) == done.stdout.count("test_rms_norm[fused-b32x2048]") == done.stdout.count("claimed 12x") > 1
    assert all(model in done.stdout.splitlines() for model in models)


def test_a_factor_is_that_of_the_slowest_run_against_the_fastest_of_the_other() -> None:
    records = {FUSED: record(FUSED, 10, 12), UNFUSED: record(UNFUSED, 30, 24)}

    assert find_worst_factor(FUSED, collected(Mark(faster_than="unfused")), records) == 2
    assert find_worst_factor(FUSED, collected(Mark(faster_than="unfused")), {FUSED: record(FUSED, 10)}) is None


@pytest.mark.parametrize(
    ("mark", "sentence"),
    [
        (Mark(launches=2), f"{FUSED} claims 2 launches, stored are [1]"),
        (Mark(faster_than="unfused", by=2.1), f"{FUSED} claims 2.1x over unfused, the stored runs carry 2x"),
        (Mark(faster_than="absent"), "but nothing is stored for that case"),
    ],
)
def test_a_claim_beyond_the_stored_runs_is_named(mark: Mark, sentence: str) -> None:
    records = {FUSED: record(FUSED, 12), UNFUSED: record(UNFUSED, 24)}

    (broken,) = find_broken_claims({FUSED: collected(mark)}, records)

    assert FUSED in broken
    assert sentence in broken


@pytest.mark.parametrize("mark", [Mark(), Mark(launches=1, faster_than="unfused", by=2.0)])
def test_a_claim_that_the_stored_runs_carry_is_not_named(mark: Mark) -> None:
    records = {FUSED: record(FUSED, 12), UNFUSED: record(UNFUSED, 24)}

    assert list(find_broken_claims({FUSED: collected(mark)}, records)) == []


def test_a_case_without_stored_runs_has_nothing_to_be_broken_by() -> None:
    assert list(find_broken_claims({FUSED: collected(Mark(launches=9))}, {})) == []
