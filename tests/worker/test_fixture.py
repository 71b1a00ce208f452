"""The fixture as a test sees it where nothing is measured: it calls what it is given, once."""

from __future__ import annotations

import pytest

from pytest_nsight.worker.fixture import Nsight, PlainMeasurement


def test_it_calls_the_function_and_returns_its_result() -> None:
    nsight = Nsight(PlainMeasurement())

    assert not nsight.is_used
    assert nsight(max, 2, 3) == 3
    assert nsight.is_used


@pytest.mark.parametrize("value", [3, "text", None, [len]])
def test_the_result_of_a_call_in_place_of_a_function_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"pass the function and its arguments apart, as in nsight\(f, x\)"):
        Nsight(PlainMeasurement())(value)  # type: ignore[arg-type]
