"""The same cases through the plugin."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks.cupti.cases import CASES, CollectorCase


@pytest.mark.nsight
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=pytest.mark.nsight(metric=case.metric)) for case in CASES],
)
def test_case(nsight: Any, case: CollectorCase) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if case.needs_gpu and device == "cpu":
        pytest.skip(f"{case.name} needs a CUDA device")
    nsight(case.build(device))
