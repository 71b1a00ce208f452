"""What --nsight-pool stores."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from pytest_nsight.calibrate.pool import read_pool
from tests.sessions.conftest import HEAD

pytestmark = pytest.mark.slow

BODY = """
@pytest.mark.nsight
def test_pooled(nsight):
    nsight(square, torch.ones(64, 64))
"""


def test_every_run_is_in_the_pool(gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester) -> None:
    done = gate("--nsight-pool=pool.gz", "--nsight-runs=2", "--nsight-collector=torch", body=BODY)

    assert done.ret == pytest.ExitCode.OK, done.stdout.str()
    assert len({summary.run for summary in read_pool(pytester.path / "pool.gz").summaries}) == 2


def test_confirming_processes_measure_few_cases(
    gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    body = BODY.replace("@pytest", '@pytest.mark.parametrize("number", range(4))\n@pytest', 1).replace(
        "(nsight)", "(nsight, number)"
    )

    done = gate(
        "--nsight-pool=pool.gz",
        "--nsight-runs=1",
        "--nsight-pool-confirming=2",
        "--nsight-collector=torch",
        body=body,
    )

    assert done.ret == pytest.ExitCode.OK, done.stdout.str()
    runs = read_pool(pytester.path / "pool.gz").summaries
    assert sorted(Counter(one.run for one in runs if not one.subject.is_canary).values()) == [1, 3, 4]
    assert sorted({one.run: one.cases for one in runs}.values()) == [1, 3, 4]


@pytest.mark.long
def test_a_pool_outside_of_the_project_moves_no_worker_to_another_root(pytester: pytest.Pytester) -> None:
    """pytest looks for its root above every existing path among its arguments, values of options included."""
    project = pytester.mkdir("project")
    (project / "test_case.py").write_text(HEAD + BODY, encoding="utf-8")
    os.chdir(project)

    done = pytester.runpytest_subprocess(
        "--nsight",
        "--nsight-rounds=10",
        "--nsight-runs=3",
        "--nsight-collector=torch",
        "--nsight-pool",
        "../pool.gz",
        ".",
    )

    assert done.ret == pytest.ExitCode.OK, done.stdout.str()
    assert len({summary.run for summary in read_pool(pytester.path / "pool.gz").summaries}) == 3
