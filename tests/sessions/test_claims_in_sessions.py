"""No claim or expectation is dropped because a partner, a function or a mark is missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_nsight.protocol.mark import find_partner, find_partners

Gate = Callable[..., pytest.RunResult]

BODY = """
import unittest

@pytest.mark.nsight
def test_comes_apart(nsight):
    nsight(square, torch.ones(8, 8))

@pytest.mark.xfail(strict=True, reason="known")
@pytest.mark.nsight
def test_is_expected_to(nsight):
    nsight(square, torch.ones(8, 8))

@pytest.mark.nsight(launches=2, max_time="1ns", min_share_of_limit=1)
def test_claims_of_a_gpu(nsight):
    nsight(square, torch.ones(8, 8))

@pytest.mark.nsight
class TestUnit(unittest.TestCase):
    def test_it(self):
        square(torch.ones(8))

@pytest.mark.nsight(kernels=1)
def test_ill_typed(nsight): pass
"""


def test_the_partner_is_the_case_that_differs_in_one_id() -> None:
    cases = {"t.py::test_op[fused-4096]", "t.py::test_op[unfused-4096]", "t.py::test_op[4096-unfused]"}

    def find(variant: str, *ids: str) -> str | None:
        return find_partner(f"t.py::test_op[{'-'.join(ids)}]", tuple((one,) for one in ids), variant, cases)

    assert find("unfused", "fused", "4096") == "t.py::test_op[unfused-4096]"
    assert find("unfused", "4096", "fused") == "t.py::test_op[4096-unfused]"
    assert find("unfused", "unfused", "4096") is None
    assert find("typo", "fused", "4096") == "t.py::test_op[typo-4096]"


def test_ids_with_dashes_have_their_partners(pytester: pytest.Pytester) -> None:
    items = pytester.getitems(
        """
        import pytest

        @pytest.mark.nsight(faster_than="torch-compile")
        @pytest.mark.parametrize("size", [8, 16])
        @pytest.mark.parametrize("variant", ["torch-compile", "my-fused", "torch"])
        def test_stacked(variant, size): pass

        @pytest.mark.nsight(faster_than="my-unfused")
        @pytest.mark.parametrize("variant,size", [("my-fused", 8), ("my-unfused", 8), ("fused", 16)])
        def test_joined(variant, size): pass
        """
    )

    partners = {case.partition("::")[2]: one.partition("::")[2] for case, one in find_partners(items).items()}

    assert partners == {
        "test_stacked[my-fused-8]": "test_stacked[torch-compile-8]",
        "test_stacked[my-fused-16]": "test_stacked[torch-compile-16]",
        "test_stacked[torch-8]": "test_stacked[torch-compile-8]",
        "test_stacked[torch-16]": "test_stacked[torch-compile-16]",
        "test_joined[my-fused-8]": "test_joined[my-unfused-8]",
        # No such case: the sentence of the claim names it.
        "test_joined[fused-16]": "test_joined[my-unfused-16]",
    }


@pytest.mark.slow
def test_failures_expected_failures_and_what_cannot_be_measured(gate: Gate) -> None:
    body = BODY.replace("kernels=1", "kernels=['mul']")
    gate("--nsight-save", "--nsight-runs=3", body=body)
    result = gate("-v", body=body.replace("nsight(square,", "nsight(chain,"))

    # The unittest method and the empty test have nothing to measure.
    result.assert_outcomes(xfailed=1, failed=4)
    result.stdout.fnmatch_lines(
        [
            "*test_comes_apart STRUCTURE*",
            "*test_claims_of_a_gpu STRUCTURE*",
            "*nothing was measured: the mark nsight is for test functions whose call raises nothing*",
        ]
    )


SUBTESTS = """
CALLS = []

@pytest.mark.nsight
def test_passes(subtests):
    for n in (1, 2):
        with subtests.test(n=n):
            square(torch.ones(8))

@pytest.mark.nsight
def test_fails_later(subtests):
    CALLS.append(1)
    for n in (1, 2):
        with subtests.test(n=n):
            square(torch.ones(8))
            assert n == 1 or len(CALLS) < 9
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="pytest 9 was the first with subtests")
def test_subtests_of_a_test_that_is_measured_as_a_whole_are_reported_once(gate: Gate) -> None:
    result = gate("-v", "--nsight-save", "--nsight-runs=1", body=SUBTESTS)

    lines = [line for line in result.outlines if " SUBPASSED" in line or " SUBFAILED" in line]
    assert [line.split()[0].rpartition("::")[2] for line in lines].count("test_passes") == 2
    assert sum("SUBPASSED" in line for line in lines) == 4
    assert sum("SUBFAILED" in line for line in lines if not line.startswith("SUBFAILED")) == 1


RUNS_COROUTINES = """
import asyncio
import inspect
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        names = pyfuncitem._fixtureinfo.argnames
        asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
        return True
"""


@pytest.mark.slow
def test_a_test_that_is_a_coroutine_is_told_what_to_measure(gate: Gate, pytester: pytest.Pytester) -> None:
    """As anyio's plugin runs them; what such a test measures itself counts."""
    pytester.makeconftest(RUNS_COROUTINES)
    body = """
@pytest.mark.nsight
async def test_whole():
    square(torch.ones(8))

@pytest.mark.nsight
async def test_measures(nsight):
    nsight(square, torch.ones(8))
"""

    result = gate("--nsight-save", "--nsight-runs=1", body=body)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["the test cannot be measured as a whole: test_whole is a coroutine function, whose call runs nothing: *"]
    )
    assert "never awaited" not in result.stdout.str()


@pytest.mark.slow
def test_a_call_that_returns_a_coroutine_is_told_what_to_measure(gate: Gate) -> None:
    body = """
async def work(x):
    square(x)

@pytest.mark.nsight
def test_returns(nsight):
    nsight(lambda: work(torch.ones(8)))
"""

    result = gate("--nsight-save", "--nsight-runs=1", body=body)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *TypeError: nsight(...) cannot measure *returned a coroutine that has not begun: *"]
    )
    assert "operator ran" not in result.stdout.str()


@pytest.mark.slow
def test_claims_are_of_gpu_kernels_and_do_not_fail_where_none_was_measured(gate: Gate) -> None:
    result = gate("-v", "-k", "test_claims_of_a_gpu", body=BODY.replace("kernels=1", "kernels=['mul']"))

    result.assert_outcomes(passed=1, deselected=4)
    result.stdout.fnmatch_lines(["note: the marks' claims were not checked: they are about GPU kernels, and no*"])


@pytest.mark.slow
def test_ill_typed_kernels_name_the_test(gate: Gate) -> None:
    result = gate(body=BODY)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *test_ill_typed: nsight(kernels=...) is 1; give a list of kernel names"])
