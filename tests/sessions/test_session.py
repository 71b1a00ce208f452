"""`pytest --nsight` behaves as pytest does, and says what was measured."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.slow

Gate = Callable[..., pytest.RunResult]

SUITE = """
@pytest.mark.nsight
@pytest.mark.parametrize("variant", ["one", "two"])
def test_fixture(nsight, variant):
    x = torch.ones(64, 64)
    out = nsight({"one": square, "two": chain}[variant], x)
    assert out.shape == (64, 64)

@pytest.mark.nsight
def test_bare():
    torch.ones(64, 64) @ torch.ones(64, 64)

@pytest.mark.nsight
def test_parts(nsight):
    x = torch.ones(64, 64, requires_grad=True)
    with nsight.range("forward"):
        loss = (x * x).sum()
    with nsight.range("backward"):
        loss.backward()

@pytest.mark.nsight
def test_wrong(nsight):
    assert nsight(square, torch.ones(3)).sum() == 4, "wrong result"

@pytest.mark.nsight
def test_skipped(nsight):
    pytest.skip("not here")

@pytest.mark.nsight
def test_lazy(nsight):
    nsight(lambda: None)

@pytest.mark.nsight
def test_benchmark(benchmark):
    assert benchmark(square, torch.ones(3)).sum() == 3

def test_plain():
    assert os.environ.get("PYTEST_CURRENT_TEST")
"""


def test_every_kind_of_test_gets_its_own_outcome(gate: Gate, pytester: pytest.Pytester) -> None:
    result = gate("-v", "--junitxml=junit.xml", "--nsight-json=out.json", body=SUITE)

    result.assert_outcomes(passed=6, failed=2, skipped=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "nsight: collector torch (CPU operators*",
            "test_case.py::test_fixture[[]one[]] NO_BASELINE*",
            "test_case.py::test_wrong FAILED*",
            "test_case.py::test_skipped SKIPPED*(not here)*",
            "test_case.py::test_plain PASSED*",
            "*wrong result*",
            "*no CPU operator ran in the measured rounds*",
        ]
    )
    names = {element.get("name"): element for element in ET.parse(pytester.path / "junit.xml").iter("testcase")}
    properties = {p.get("name"): p.get("value") for p in names["test_bare"].iter("property")}
    assert properties["nsight_verdict"] == "NO_BASELINE"
    assert float(properties["nsight_now_ns"] or 0) > 0
    benchmarks = {b["fullname"] for b in json.loads((pytester.path / "out.json").read_text())["benchmarks"]}
    assert "test_case.py::test_parts" in {name.split("/backward")[0].split("/forward")[0] for name in benchmarks}
    assert sum("test_parts" in name for name in benchmarks) == 3


def test_selection_and_stopping_mean_what_they_always_mean(gate: Gate) -> None:
    kept = gate("-k", "bare or wrong", body=SUITE)
    stopped = gate("-x", "-k", "wrong or lazy or bare")

    kept.assert_outcomes(passed=1, failed=1, deselected=7)
    assert stopped.ret == pytest.ExitCode.TESTS_FAILED
    stopped.assert_outcomes(passed=1, failed=1, deselected=6)
    stopped.stdout.fnmatch_lines(["*stopping after 1 failures*"])


@pytest.mark.long
def test_last_failed_reruns_what_failed_in_the_gate(gate: Gate) -> None:
    gate("-k", "bare or wrong", body=SUITE)

    again = gate("--lf")

    again.assert_outcomes(failed=1)


def test_collect_only_measures_nothing(gate: Gate, pytester: pytest.Pytester) -> None:
    result = gate("--collect-only", "-q", body=SUITE)

    assert result.ret == 0
    assert not (pytester.path / ".nsight").exists()


@pytest.mark.long
def test_a_test_that_wants_to_end_the_session_ends_itself_and_its_reason_is_told(gate: Gate) -> None:
    body = """
@pytest.fixture
def impatient():
    pytest.exit("no more fixtures")

@pytest.mark.nsight
@pytest.mark.parametrize("n", range(3))
def test_op(nsight, n):
    nsight(square, torch.ones(8, 8))
    if n == 1:
        pytest.exit("enough is enough", returncode=7)

@pytest.mark.nsight
def test_fixture(nsight, impatient):
    nsight(square, torch.ones(8, 8))
"""
    result = gate("-v", body=body)

    result.assert_outcomes(passed=2, failed=1, errors=1)
    result.stdout.fnmatch_lines_random(
        [
            "*pytest.exit: enough is enough (with --nsight it ends this test only)*",
            "*pytest.exit: no more fixtures*",
        ]
    )


def test_a_second_measurement_in_a_test_is_an_error_with_a_remedy(gate: Gate) -> None:
    body = """
@pytest.mark.nsight
def test_twice(nsight):
    nsight(square, torch.ones(3))
    nsight(square, torch.ones(3))
"""
    result = gate(body=body)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*call nsight(...) once in a test*"])


def test_strict_refuses_a_fallback_collector(gate: Gate) -> None:
    result = gate("--nsight-strict", body=SUITE)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --nsight-strict refuses a fallback collector: no CUDA device here*"])


FIXTURES = """
import pytest
import torch

@pytest.fixture(scope="module")
def room():
    yield
    print("module over")
    {at_the_end}

def test_plain(room):
    pass

@pytest.mark.nsight
def test_op(nsight):
    nsight(torch.ones, 64)
"""


def test_unmarked_tests_before_and_after_a_marked_one_run_as_always(gate: Gate, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_a=FIXTURES.format(at_the_end=""), test_b="def test_b(): pass")

    result = gate("-s")

    result.assert_outcomes(passed=3)
    text = result.stdout.str()
    assert text.index("module over") < text.index("test_b.py")


def test_a_fixture_that_fails_at_its_end_after_a_marked_test_is_an_error(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_a=FIXTURES.format(at_the_end="raise OSError('no end')"), test_b="def test_b(): pass")

    result = gate()

    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_op*", "*OSError: no end*"])


LOADING = """
import sys

@pytest.mark.nsight(rounds=3)
def test_loaded(nsight):
    nsight(square, torch.ones(4))
    assert not {"scipy", "pandas"} & set(sys.modules)
"""


def test_a_worker_loads_nothing_that_only_judging_needs(gate: Gate) -> None:
    gate(body=LOADING).assert_outcomes(passed=1)
