"""`--nsight-drill` in whole sessions, with a program in place of Nsight Compute that runs the worker."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.collectors.ncu_output import plant_ncu, raw_page

Gate = Callable[..., pytest.RunResult]

pytestmark = pytest.mark.long

BODY = """
@pytest.mark.nsight
def test_square(nsight):
    nsight(square, torch.ones(64, 64))
"""


@pytest.fixture
def planted(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts an ncu with this output in place."""

    def plant(output: str) -> None:
        monkeypatch.setenv("PYTEST_NSIGHT_NCU", str(plant_ncu(pytester.path / "bin", output)))

    return plant


def test_a_save_stores_the_counters_of_each_case(
    gate: Gate, pytester: pytest.Pytester, planted: Callable[[str], None]
) -> None:
    planted(raw_page([("void square_kernel<float>(float*)", {})]))

    result = gate("--nsight-save", "--nsight-runs=1", "--nsight-no-canaries", "--nsight-drill", body=BODY)

    assert result.ret == 0
    (path,) = pytester.path.glob("baselines/*/nsight_counters.jsonl")
    (line,) = path.read_text().splitlines()
    counters = json.loads(line)["counters"]
    assert counters["case"] == "test_case.py::test_square"
    assert counters["kernels"][0]["kernel"] == "square_kernel"
    assert counters["kernels"][0]["values"]["registers"] == 32.0
    arguments = (pytester.path / "bin" / "arguments").read_text()
    assert "--clock-control=none" in arguments
    assert "pytest_nsight.worker.worker_process" in arguments


def test_a_save_without_drill_removes_counters_which_may_be_of_other_code_and_says_so(
    gate: Gate, pytester: pytest.Pytester, planted: Callable[[str], None]
) -> None:
    planted(raw_page([("void square_kernel<float>(float*)", {})]))
    gate("--nsight-save", "--nsight-runs=1", "--nsight-no-canaries", "--nsight-drill", body=BODY)
    assert list(pytester.path.glob("baselines/*/nsight_counters.jsonl"))

    result = gate("--nsight-save", "--nsight-runs=1", "--nsight-no-canaries", body=BODY)

    assert result.ret == 0
    assert not list(pytester.path.glob("baselines/*/nsight_counters.jsonl"))
    text = " ".join(result.stdout.str().split())
    assert "counters of test_case.py::test_square were removed, as an earlier save had stored them" in text


def test_a_save_without_permission_saves_the_times_and_says_why_there_are_no_counters(
    gate: Gate, pytester: pytest.Pytester, planted: Callable[[str], None]
) -> None:
    planted("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")

    result = gate("--nsight-save", "--nsight-runs=1", "--nsight-no-canaries", "--nsight-drill", body=BODY)

    assert result.ret == 0
    assert list(pytester.path.glob("baselines/*/test_case.json"))
    assert not list(pytester.path.glob("baselines/*/nsight_counters.jsonl"))
    text = " ".join(result.stdout.str().split())
    assert "no counters of test_case.py::test_square were stored: this user may not read the GPU's counters" in text


def test_drilling_into_a_replay_is_refused(gate: Gate, pytester: pytest.Pytester) -> None:
    (pytester.path / "recorded").mkdir()

    result = gate("--nsight-drill", "--nsight-replay=recorded", body=BODY)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--nsight-drill profiles what it has measured; run it without --nsight-replay*"])
