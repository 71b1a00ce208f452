"""Runs `pytest --nsight` for real, in a process of its own, over small tests of CPU operators."""

from __future__ import annotations

from collections.abc import Callable

import pytest

HEAD = """
import os
import pytest
import torch

torch.set_num_threads(1)

def square(x):
    return x * x

def chain(x):
    return torch.exp(x) + x.sum()
"""


@pytest.fixture
def gate(pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Writes `body` into test_case.py, if given, and runs pytest with the arguments."""
    pytester.makeini("[pytest]\naddopts = -p no:randomly\n")

    def run(*arguments: str, body: str | None = None, nsight: bool = True) -> pytest.RunResult:
        if body is not None:
            pytester.makepyfile(test_case=HEAD + body)
        options = ("--nsight", "--nsight-rounds=10") if nsight else ()
        return pytester.runpytest_subprocess(*options, *arguments)

    return run
