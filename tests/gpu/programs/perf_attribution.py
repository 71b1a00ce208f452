"""Measured by tests/gpu/test_attribution.py, which copies it into a project of its own."""

from __future__ import annotations

import pytest

from tests.gpu.programs.bodies import BODIES
from tests.gpu.programs.sizes import ROUNDS

pytestmark = pytest.mark.nsight(rounds=ROUNDS, warmup=3, rest="1ms")

TRUE_CLAIM = pytest.mark.nsight(launches=1, kernels=["_scale_kernel"])
FALSE_CLAIM = pytest.mark.nsight(launches=2, kernels=["_other_kernel"])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.nsight(metric="copy") if name == "copies" else ())
        for name in BODIES
        if name != "written_in_triton"
    ]
    + [pytest.param("written_in_triton", marks=TRUE_CLAIM)],
)
def test_body(nsight, name):
    nsight(BODIES[name](nsight.range))


@FALSE_CLAIM
def test_false_claim(nsight):
    nsight(BODIES["written_in_triton"](nsight.range))
