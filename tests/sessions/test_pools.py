"""What --nsight-pool stores."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_nsight.calibrate.pool import read_pool

pytestmark = pytest.mark.slow

BODY = """
@pytest.mark.nsight
def test_pooled(nsight):
    nsight(square, torch.ones(64, 64))
"""


@pytest.mark.parametrize("runs", [1, 2])
def test_every_run_is_in_the_pool(
    gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester, runs: int
) -> None:
    done = gate("--nsight-pool=pool.gz", f"--nsight-runs={runs}", "--nsight-collector=torch", body=BODY)

    assert done.ret == pytest.ExitCode.OK, done.stdout.str()
    assert len({summary.run for summary in read_pool(pytester.path / "pool.gz").summaries}) == runs
