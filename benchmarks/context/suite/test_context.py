"""Tiny cases, and fillers between which they run."""

from __future__ import annotations

import os
from typing import Any

import pytest

from benchmarks.context.suite import filler_cases, tiny_cases
from benchmarks.context.suite.tiny_cases import TinyCase


def _marked(case: TinyCase) -> Any:
    return pytest.param(case, id=case.name, marks=pytest.mark.nsight(metric=case.metric))


@pytest.mark.nsight
@pytest.mark.parametrize("case", [_marked(case) for case in tiny_cases.CASES])
def test_tiny(nsight: Any, case: TinyCase, device: str, prologues: frozenset[str]) -> None:
    if case.needs_gpu and device == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip(f"{case.name} needs a CUDA device, or TRITON_INTERPRET=1")
    body = case.build(device)

    def prepare() -> None:
        if "round" in prologues:
            body()

    nsight.pedantic(body, setup=prepare)


@pytest.mark.nsight
@pytest.mark.parametrize("name", list(filler_cases.CASES))
def test_filler(nsight: Any, name: str, device: str) -> None:
    nsight(filler_cases.CASES[name](device))
