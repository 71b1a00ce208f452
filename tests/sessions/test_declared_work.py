"""Work that a test declares reaches the stored runs, and its claim is reported if the board's limit is unknown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.baselines.decode import decode
from pytest_nsight.model.values import Work

pytestmark = pytest.mark.long
Gate = Callable[..., pytest.RunResult]

BODY = """
@pytest.mark.nsight(bytes=1)
@pytest.mark.parametrize("n", [8, 16])
def test_square(nsight, n):
    x = torch.ones(n, n)
    nsight(square, x)
    nsight.work(bytes=2 * x.nbytes, flops=x.numel())

@pytest.mark.nsight(bytes=64, flops=16)
def test_by_mark():
    square(torch.ones(4, 4))

@pytest.mark.nsight
def test_whole(nsight):
    nsight.work(bytes=99)
    with nsight.range("part"):
        square(torch.ones(4, 4))
"""


def test_work_is_stored_with_the_runs(gate: Gate, pytester: pytest.Pytester) -> None:
    result = gate("--nsight-save", "--nsight-runs=1", body=BODY)

    result.assert_outcomes(passed=4)
    (path,) = pytester.path.glob("baselines/*/*.json")
    runs = decode(path.read_text(encoding="utf-8"))
    assert {subject.label: run.work for subject, (run,) in runs.items()} == {
        "test_square[8]": Work(512, 64),
        "test_square[16]": Work(2048, 256),
        "test_by_mark": Work(64, 16),
        "test_whole": Work(99, 0),
        "test_whole/part": None,
    }


# A CPU that passes for a GPU: everything from the canaries to the reports then does its part.
CONFTEST = """
import torch
import pytest_nsight.trace.run_summary
from pytest_nsight.worker.canaries import make_canaries
from pytest_nsight.worker.device import CpuDevice

torch.set_num_threads(1)
CpuDevice.canaries = make_canaries(torch, "cpu", 1 << 20, 1024)
plain = CpuDevice.__init__

def init(self):
    plain(self)
    self.board = "GPU-0000"

CpuDevice.__init__ = init
# Its operators stand for the kernels, which would be missing.
pytest_nsight.trace.run_summary.is_gpu = lambda board: False
"""

CLAIMS = """
@pytest.mark.nsight(min_share_of_limit=0.5)
@pytest.mark.parametrize("moved", [1, 10**12])
def test_claims(nsight, moved):
    nsight.work(bytes=moved, flops=1)
    nsight(square, torch.ones(64, 64))
"""


def told(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The session's part of a JSON report, and that of each case by its name."""
    file = json.loads(path.read_text(encoding="utf-8"))
    return file["nsight"], {one["name"]: one["extra_info"]["nsight"] for one in file["benchmarks"]}


def test_limits_of_the_session_s_canaries_judge_a_claim_live_and_in_replay(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(CONFTEST)
    live = gate("--nsight-keep", "--nsight-json=live.json", body=CLAIMS)
    (session,) = (pytester.path / ".nsight").glob("2*")
    replayed = gate("--nsight-replay", str(session), "--nsight-json=replay.json")

    for result in (live, replayed):
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(["test_claims[[]1[]]: claim failed: reaches * of the board's*"])
    ours, cases = told(pytester.path / "live.json")
    assert list(ours["limits"]) == ["GPU-0000"]
    assert all(rate > 0 for rate in ours["limits"]["GPU-0000"].values())
    roofline = cases[f"test_claims[{10**12}]"]["roofline"]
    assert roofline["bound"]["resource"] == "memory"
    assert roofline["share"] == pytest.approx(
        1e9 * 1e12 / ours["limits"]["GPU-0000"]["bytes_per_s"] / roofline["duration_ns"]
    )
    again, replayed_cases = told(pytester.path / "replay.json")
    assert again["limits"] == ours["limits"]
    assert {name: case["roofline"] for name, case in replayed_cases.items()} == {
        name: case["roofline"] for name, case in cases.items()
    }


def test_without_canaries_the_claim_stays_open(gate: Gate, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)

    result = gate("--nsight-no-canaries", "-v", "--nsight-json=out.json", body=CLAIMS)

    result.assert_outcomes(passed=2)
    ours, cases = told(pytester.path / "out.json")
    assert ours["limits"] == {}
    assert cases["test_claims[1]"]["roofline"]["share"] is None
    assert "claim not settled: at least 50 % of the board's limit claimed" in cases["test_claims[1]"]["sentence"]
