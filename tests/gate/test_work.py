"""Work that a test declares reaches the stored runs, and its claim is told where nothing limits it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_nsight.baselines.decode import decode
from pytest_nsight.model import Work

pytestmark = pytest.mark.slow
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
