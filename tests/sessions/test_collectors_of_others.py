"""A collector that another package brings: found by its entry point, chosen by name, replayed from what it kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Gate = Callable[..., pytest.RunResult]

pytestmark = pytest.mark.slow

BODY = """
@pytest.mark.nsight
def test_square(nsight):
    nsight(square, torch.ones(64, 64))
"""


@pytest.fixture
def clock(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package of tests/examples, installed for the test: its folder is on the path."""
    folder = pytester.copy_example("clock_collector")
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    return folder


def test_it_measures_and_its_recording_is_replayed(gate: Gate, clock: Path, pytester: pytest.Pytester) -> None:
    result = gate("--nsight-collector=clock", "--nsight-keep", "--nsight-no-canaries", "-v", body=BODY)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["nsight: collector clock 1.0, *", "*NO_BASELINE*"])
    (session,) = (pytester.path / ".nsight").glob("2*")
    assert (session / "run-001" / "clock.jsonl").exists()

    replayed = gate(f"--nsight-replay={session}", "-v")

    replayed.assert_outcomes(passed=1)
    replayed.stdout.fnmatch_lines(["*NO_BASELINE*"])


def test_an_unknown_name_is_refused_with_all_that_there_are(gate: Gate, clock: Path) -> None:
    result = gate("--nsight-collector=clocc", body=BODY)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--nsight-collector is 'clocc'; choose one of auto, nsys, cupti, torch, clock*"])
