"""A suite on several machines: each shard measures its part and judges nothing; the report judges all of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

SUITE = """
import time, pytest

@pytest.mark.nsight
@pytest.mark.parametrize("n", range(3))
def test_a(nsight, n):
    nsight(sum, range(2000))

@pytest.mark.nsight
def test_broken(nsight):
    assert nsight(sum, range(2000)) == BROKEN

def test_plain(): pass
"""
STORED = ("--nsight-save", "--nsight-runs=3")

Gate = Callable[..., pytest.RunResult]


@pytest.fixture
def gate(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Runs pytest with a collector that reads the clock, whose cases take milliseconds."""
    folder = pytester.copy_example("clock_collector")
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    pytester.makeini("[pytest]\naddopts = -p no:randomly\nnsight_band = 90%\n")
    pytester.makepyfile(test_case=SUITE.replace("BROKEN", "1999000"))

    def run(*arguments: str) -> pytest.RunResult:
        options = ("--nsight", "--nsight-collector=clock", "--nsight-rounds=10", "--nsight-no-canaries")
        return pytester.runpytest_subprocess(*options, *arguments)

    return run


def sessions(pytester: pytest.Pytester) -> list[str]:
    return sorted(str(path.parent) for path in (pytester.path / ".nsight").glob("2*/shard.json"))


def report(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.run(sys.executable, "-m", "pytest_nsight.cli", "report", *sessions(pytester), *arguments)


def test_two_shards_are_measured_apart_and_judged_together(gate: Gate, pytester: pytest.Pytester) -> None:
    gate(*STORED)
    stored = json.loads(next((pytester.path / "baselines").glob("*/*.json")).read_text())

    first, second = gate("--nsight-shard=1/2"), gate("--nsight-shard=2/2")

    # A stored run says how long its test took, and shards are cut by it.
    assert all(run[-1] > 0 for subject in stored["subjects"] for run in subject["runs"])
    first.stdout.fnmatch_lines(["nsight: shard 1/2: *, about * a run, by the durations of the baselines"])
    assert [result.ret for result in (first, second)] == [pytest.ExitCode.OK, pytest.ExitCode.OK]
    for result in (first, second):
        result.stdout.fnmatch_lines(["*MEASURED*", "* verdict*: * measured"])
    outcomes = [result.parseoutcomes() for result in (first, second)]
    assert sum(found["passed"] for found in outcomes) == 5
    assert [found["passed"] + found["deselected"] for found in outcomes] == [5, 5]
    joined = report(pytester, "--report", "json=out.json")
    assert joined.ret == 0
    joined.stdout.fnmatch_lines(["*joined from 2 shards and judged together*", "4 verdicts: *"])
    verdicts = json.loads((pytester.path / "out.json").read_text())["benchmarks"]
    assert len({one["extra_info"]["nsight"]["case"] for one in verdicts}) == 4
    assert (Path(sessions(pytester)[0]) / "kept").exists()


def test_a_broken_test_fails_its_shard_and_the_union_and_no_verdict_fails_a_shard(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_case=SUITE.replace("BROKEN", "1"))

    # Nothing is stored: a strict session would fail each case with NO_BASELINE, a shard leaves that to the union.
    codes = [gate(f"--nsight-shard={number}/2", "--nsight-strict").ret for number in (1, 2)]

    assert sorted(codes) == [pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED]
    joined = report(pytester)
    assert joined.ret == 1
    text = " ".join(joined.stdout.str().split())
    assert "1 case has failed without a verdict: test_case.py::test_broken: " in text
    assert "3 verdicts: 0 regressions, 0 improvements, 3 without baseline" in text


def test_more_shards_than_cases_leave_empty_ones_that_pass(gate: Gate, pytester: pytest.Pytester) -> None:
    codes = [gate(f"--nsight-shard={number}/3", "-k", "test_broken or 0").ret for number in (1, 2, 3)]

    assert codes == [pytest.ExitCode.OK] * 3
    assert report(pytester).ret == 0


def test_shards_that_pytest_split_or_the_command_line_has_cut(gate: Gate, pytester: pytest.Pytester) -> None:
    pytest.importorskip("pytest_split")
    split = [("--splits=2", f"--group={number}") for number in (1, 2)]

    refused = gate("--nsight-shard=1/2", *split[0])
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["ERROR: *would both divide the tests*--nsight-shard-by selection"])
    for number, options in enumerate(split, 1):
        assert gate(f"--nsight-shard={number}/2", "--nsight-shard-by=selection", *options).ret == 0
    joined = report(pytester)
    assert joined.ret == 0
    joined.stdout.fnmatch_lines(["4 verdicts: *"])


def test_selections_that_overlap_are_refused(gate: Gate, pytester: pytest.Pytester) -> None:
    for number, words in enumerate(("test_a", "test_broken or 0"), 1):
        gate(f"--nsight-shard={number}/2", "--nsight-shard-by=selection", "-k", words)

    joined = report(pytester)

    assert joined.ret == 2
    joined.stderr.fnmatch_lines(["*shards 1/2 and 2/2 both hold test_case.py::test_a[[]0[]]; let the selections*"])
