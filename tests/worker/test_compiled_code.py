"""What torch.compile has compiled for one case decides nothing in the next; what a wider fixture compiles stays."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

HEAD = """
import sys, threading, time
import pytest, torch

NUMBERS, CALLS = [], []

def backend(graph, inputs):
    NUMBERS.extend(one for one in inputs if not isinstance(one, torch.Tensor))
    CALLS.append(graph)
    return graph.forward

FUSED = torch.compile(lambda x: x.sin() * 2, backend=backend)
pytestmark = pytest.mark.nsight
"""

EACH_FOR_ITSELF = """
@pytest.mark.parametrize("size", range(4, 16))
def test_compiled(nsight, size):
    before = len(CALLS)
    nsight(FUSED, torch.ones(size))
    # For its own shape, once: not for any shape, and not given up.
    assert not NUMBERS
    assert len(CALLS) == before + 1
"""

WARM = """
@pytest.fixture(scope="module")
def warm():
    FUSED(torch.ones(4))

@pytest.mark.parametrize("n", [1, 2, 3])
def test_nothing_is_compiled_again(nsight, warm, n):
    with torch.compiler.set_stance("fail_on_recompile"):
        nsight(FUSED, torch.ones(4))
    assert len(CALLS) == 1
"""

AT_IMPORT = """
FUSED(torch.ones(4))

@pytest.mark.parametrize("n", [1, 2])
def test_nothing_is_compiled_again(nsight, n):
    nsight(FUSED, torch.ones(4))
    assert len(CALLS) == 1
"""

STRANGE = """
@pytest.mark.parametrize("n", [1, 2])
def test_takes_dynamo_away(nsight, n):
    nsight(FUSED, torch.ones(4))
    sys.modules["torch._dynamo"] = object()
"""

BUSY = """
def compile_long(graph, inputs):
    time.sleep(600)

def test_leaves_a_compiler_at_work(nsight):
    nsight(FUSED, torch.ones(4))
    slow = torch.compile(lambda x: x.cos(), backend=compile_long)
    threading.Thread(target=slow, args=(torch.ones(4),), daemon=True).start()
    time.sleep(1)

def test_after_it(nsight):
    nsight(torch.exp, torch.ones(4))
"""


@pytest.mark.parametrize(
    ("tests", "passed"),
    [(EACH_FOR_ITSELF, 12), (WARM, 3), (AT_IMPORT, 2), (STRANGE, 2), (BUSY, 2)],
    ids=["each for itself", "a warm fixture", "at import", "taken away", "a busy thread"],
)
def test_a_case_compiles_as_in_plain_pytest_but_for_what_other_cases_have_compiled(
    pytester: pytest.Pytester, tests: str, passed: int
) -> None:
    pytester.makepyfile(test_case=HEAD + tests)
    options = ("--nsight", "--nsight-save", "--nsight-runs=1", "--nsight-rounds=10", "--nsight-collector=torch")

    result = pytester.runpytest_subprocess(*options, timeout=240)

    result.assert_outcomes(passed=passed)
