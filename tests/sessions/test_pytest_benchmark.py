"""Tests of pytest-benchmark run unchanged under --nsight, and the ini file may mark them all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.long

Gate = Callable[..., pytest.RunResult]


@pytest.fixture(autouse=True)
def no_worker_of_xdist(monkeypatch: pytest.MonkeyPatch) -> None:
    """In such a worker pytest-benchmark measures nothing, and what this test starts would take itself for one."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)


SUITE = """
import warnings

def test_fixture(benchmark):
    benchmark.extra_info["gigabytes"] = 3
    before = benchmark.stats
    out = benchmark(square, torch.ones(64, 64))
    assert out.sum() == 4096
    assert before is None and benchmark.enabled and benchmark._timer() > 0
    assert benchmark.stats["rounds"] == len(benchmark.stats.stats.data) == 10
    assert 0 < benchmark.stats["min"] <= benchmark.stats.stats.mean < 1
    assert benchmark.stats.extra_info == {"gigabytes": 3}

def test_pedantic(benchmark):
    log = []
    def setup():
        log.append("set up")
        return (torch.ones(8, 8),), {}
    benchmark.pedantic(square, setup=setup, teardown=lambda x: log.append("tear down"), rounds=3)
    assert log == ["set up", "tear down"] * 15

def test_iterations(benchmark):
    calls = []
    benchmark.pedantic(lambda: (calls.append(1), square(torch.ones(3))), iterations=4, rounds=3)
    assert len(calls) == 4 * 15
    assert benchmark.stats.iterations == 4

def test_no_positive_number(benchmark):
    for name, number in (("iterations", 0), ("iterations", 1.5), ("rounds", 0), ("warmup_rounds", -1)):
        with pytest.raises(ValueError, match=f"^Must have positive int for `{name}`.$"):
            benchmark._raw_pedantic(square, (torch.ones(3),), **{name: number})
    benchmark(square, torch.ones(3))

def test_twice(benchmark):
    benchmark(square, torch.ones(3))
    benchmark(square, torch.ones(3))

def test_warning(benchmark):
    warnings.warn(RuntimeWarning("mind the step"))
    benchmark(square, torch.ones(3))

def test_unused(benchmark):
    square(torch.ones(3))

def test_without(tmp_path):
    pass
"""


def test_the_ini_file_marks_all_tests_of_pytest_benchmark_and_they_see_their_own_fixture(gate: Gate) -> None:
    result = gate("-v", "-o", "nsight_mark=benchmark", body=SUITE)

    result.assert_outcomes(passed=7, failed=1, warnings=2)
    result.stdout.fnmatch_lines(
        [
            "test_case.py::test_fixture NO_BASELINE*",
            "test_case.py::test_twice FAILED*",
            "test_case.py::test_without PASSED*",
            "*Fixture can only be used once*",
            "*test_case.py:*: RuntimeWarning: mind the step",
            "*PytestBenchmarkWarning: Benchmark fixture was not used at all in this test!",
        ]
    )


def test_the_setting_changes_nothing_without_nsight_and_selects_by_mark(gate: Gate) -> None:
    result = gate("-o", "nsight_mark=benchmark", "-m", "nsight", "-k", "iterations", nsight=False, body="""
def test_iterations(benchmark):
    benchmark.pedantic(square, (torch.ones(3),), iterations=2, rounds=3)
    assert benchmark.stats["rounds"] == 3

def test_iterations_of_another_kind():
    pass
""")  # fmt: skip

    result.assert_outcomes(passed=1, deselected=1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-o", "nsight_mark=fixture"], "*nsight_mark in the ini file is 'fixture'; give benchmark,*"),
        (["-o", "nsight_mark=benchmark", "-p", "no:benchmark"], "*is not loaded here; pip install*"),
    ],
)
def test_a_setting_that_cannot_be_followed_is_an_error(gate: Gate, arguments: list[str], sentence: str) -> None:
    result = gate(*arguments, nsight=False, body="def test_it(): pass\n")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {sentence}"])


def test_an_output_of_pytest_benchmark_that_has_nothing_to_show_is_named(gate: Gate) -> None:
    options = ("-o", "nsight_mark=benchmark", "-k", "fixture")

    result = gate(*options, "--benchmark-json=out.json", "--benchmark-autosave", body=SUITE)

    assert result.ret == pytest.ExitCode.OK
    said = " ".join(result.stdout.str().split())
    assert "pytest-benchmark times none of the measured tests for --benchmark-json, --benchmark-autosave" in said


def test_a_comparison_of_pytest_benchmark_that_would_always_pass_is_refused(gate: Gate) -> None:
    result = gate("-o", "nsight_mark=benchmark", "--benchmark-compare-fail=min:5%", body=SUITE)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --benchmark-compare-fail would pass whatever happens: *"])


def test_a_warning_that_the_user_turns_into_an_error_fails_the_measured_test(gate: Gate) -> None:
    result = gate("-W", "error::RuntimeWarning", "-k", "warning", "-o", "nsight_mark=benchmark", body=SUITE)

    result.assert_outcomes(failed=1, deselected=7)
    result.stdout.fnmatch_lines(["*RuntimeWarning: mind the step*"])


def test_a_warning_of_many_processes_is_shown_once(gate: Gate) -> None:
    body = """
class OwnWarning(UserWarning):
    pass

@pytest.mark.nsight
def test_it(nsight):
    import warnings
    warnings.warn(OwnWarning("once is enough"))
    nsight(square, torch.ones(3))
"""
    result = gate("--nsight-runs=3", body=body)

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*OwnWarning: once is enough"])
