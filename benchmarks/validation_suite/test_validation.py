"""The suite of the validation study, one test for all its cases."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.validation_suite.cases import CASES, Case, position_of
from benchmarks.validation_suite.injection import share_of


@pytest.mark.nsight
@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.kind}-{case.name}") for case in CASES])
def test_case(nsight: Any, case: Case, device: str, run_id: str, warmup: int | None) -> None:
    position = position_of(case.name)
    per_mille = 0 if position is None else share_of(case.name, position, run_id)

    nsight.pedantic(case.build(device, per_mille), warmup=warmup)
