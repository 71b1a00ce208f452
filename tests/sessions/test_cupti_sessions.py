"""`pytest --nsight --nsight-collector cupti`, whole: a stand-in for libcupti takes the place of the device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_nsight.recorders.cupti.library import VARIABLE
from tests.recorders.fake_cupti import compile_fake

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cupti sessions")]

Gate = Callable[..., pytest.RunResult]

# The machine of the test has no GPU, and says that it has one to the collector only.
CONFTEST = """
from pytest_nsight.collectors.cupti import cupti_collector
cupti_collector.gpu_names = lambda: ("NVIDIA H200",)
"""

HEAD = """
import os
from pathlib import Path
from tests.recorders.fake_cupti import FakeDevice

device = FakeDevice(Path(os.environ["CUPTI_LIBRARY"]))

def body(launches=2, name=b"_Z5scalePff", length_ns=200_000):
    for _ in range(launches):
        device.launch(name, length_ns=length_ns)
    device.synchronize()
"""

SUITE = """
@pytest.mark.nsight
def test_scale(nsight):
    nsight(body)

@pytest.mark.nsight
def test_chain(nsight):
    nsight(body, launches=int(os.environ.get("LAUNCHES", 5)))
"""


@pytest.fixture
def cupti_gate(
    gate: Gate, pytester: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Gate:
    """The gate with the collector cupti, over a stand-in for the device."""
    pytester.makeconftest(CONFTEST)
    root = Path(__file__).parents[2]
    monkeypatch.setenv(VARIABLE, str(compile_fake(tmp_path_factory.mktemp("cupti"))))
    monkeypatch.setenv("PYTHONPATH", str(root))

    def run(*arguments: str, body: str | None = None) -> pytest.RunResult:
        return gate("--nsight-collector=cupti", *arguments, body=body and HEAD + body)

    return run


def said(result: pytest.RunResult) -> str:
    """What pytest printed, without its line ends."""
    return " ".join(result.stdout.str().split())


@pytest.mark.long
def test_what_is_saved_is_compared_and_a_changed_structure_fails(
    cupti_gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = cupti_gate("--nsight-save", "--nsight-runs=2", body=SUITE)
    assert saved.ret == pytest.ExitCode.OK
    saved.stdout.fnmatch_lines(["nsight: collector cupti 130500*"])

    again = cupti_gate("-v", "--nsight-keep")
    assert again.ret == pytest.ExitCode.OK
    # The verdict is that of a CPU, which this machine is, but the times are the stand-in's.
    again.stdout.fnmatch_lines_random(["test_scale*400 → 400 us*", "test_chain*1.00 → 1.00 ms*"])

    monkeypatch.setenv("LAUNCHES", "6")
    changed = cupti_gate("-v")
    assert changed.ret == pytest.ExitCode.TESTS_FAILED
    changed.stdout.fnmatch_lines_random(["*test_chain STRUCTURE*", "*launches gained, 5 -> 6 per round*"])


@pytest.mark.long
def test_baselines_of_another_collector_are_not_compared(cupti_gate: Gate, pytester: pytest.Pytester) -> None:
    assert cupti_gate("--nsight-save", "--nsight-runs=1", body=SUITE).ret == pytest.ExitCode.OK
    for path in (pytester.path / "baselines").rglob("*.json"):
        path.write_text(path.read_text().replace('"collector":"cupti"', '"collector":"nsys"'))

    result = cupti_gate("-v")

    result.stdout.fnmatch_lines_random(["*test_scale ENVIRONMENT*"])
    assert "differs from this machine or measurement: collector nsys -> cupti" in said(result)


def test_a_profiler_inside_a_test_fails_that_test_and_no_other(cupti_gate: Gate) -> None:
    body = """
def profiled():
    device.start_other_profiler()
    body()
    device.end_other_profiler()

@pytest.mark.nsight
def test_profiled(nsight):
    nsight(profiled)
"""
    result = cupti_gate("-v", body=SUITE + body)

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines_random(
        [
            "*test_profiled FAILED*",
            "*another profiler has taken CUPTI over (torch.profiler*",
            "*test_chain NO_*",
        ]
    )


def test_a_kept_session_is_judged_again_without_cupti(
    cupti_gate: Gate, gate: Gate, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cupti_gate("--nsight-keep", body=SUITE).ret == pytest.ExitCode.OK
    (session,) = (pytester.path / ".nsight").glob("2*")

    result = gate("-v", f"--nsight-replay={session}")

    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines_random(["*test_scale NO_BASELINE*", "*test_chain NO_BASELINE*"])


def test_a_cupti_that_refuses_ends_the_session_with_a_sentence(
    cupti_gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CUPTI_REFUSES", "1")

    result = cupti_gate(body=SUITE)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: no CUPTI can record here (*CUPTI_ERROR_NOT_COMPATIBLE (40)); install *"])
