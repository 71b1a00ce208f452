"""Several workers, and ranks, under one real nsys: one recording, from which each gets its own rounds back."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.collectors.real import require_nsys

Gate = Callable[..., pytest.RunResult]

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("nsys")]

PLUGINS = Path(__file__).parents[1] / "fakes/plugins"

BODY = """
import torch.distributed as dist

@pytest.mark.nsight
@pytest.mark.parametrize("number", range(4))
def test_many(nsight, number):
    nsight(square, torch.ones(8, 8))

@pytest.mark.nsight(ranks=2)
def test_sum(nsight):
    dist.init_process_group("gloo")
    nsight(dist.all_reduce, torch.ones(8))
    dist.destroy_process_group()
"""


def test_one_recording_holds_the_rounds_of_every_worker(
    gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_nsys()
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS), prepend=os.pathsep)

    result = gate("-p", "two_gpus", "-n", "2", "--nsight-collector=nsys", "--nsight-keep", "-v", body=BODY)

    # There is no GPU: that no kernel ran is what each case must say, and nothing of rounds that got lost.
    result.assert_outcomes(failed=5)
    assert "missing from the trace" not in result.stdout.str()
    assert result.stdout.str().count("FAILED test_case.py::") == 5
    (run,) = (pytester.path / ".nsight").glob("2*/run-001")
    assert not list(run.rglob("*.nsys-rep")) + list(run.rglob("export*"))
    assert rounds_by_process(run / "trace.sqlite") == [10, 10, 20, 20]


def rounds_by_process(export: Path) -> list[int]:
    with closing(sqlite3.connect(export)) as database:
        query = "select count(*) from NVTX_EVENTS where eventType = 59 and int64Value > 0 group by globalTid >> 24"
        return sorted(count for (count,) in database.execute(query))
