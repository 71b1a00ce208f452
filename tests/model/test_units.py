"""How numbers are written for people."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.model.units import count, duration, duration_pair, percent

SCALES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (0.5, "0.500 ns"),
        (850, "850 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 us"),
        (24_400, "24.4 us"),
        (99_960, "100 us"),
        (260_000, "260 us"),
        (1_400_000, "1.40 ms"),
        (2_500_000_000, "2.50 s"),
        (1_234_000_000_000, "1234 s"),
        (-3_000, "-3.00 us"),
        (math.inf, "inf ns"),
    ],
)
def test_a_duration_has_three_digits_in_the_unit_that_fits(ns: float, text: str) -> None:
    assert duration(ns) == text


@given(st.floats(1e-3, 1e15))
def test_a_duration_is_rounded_by_half_a_percent_at_most(ns: float) -> None:
    number, unit = duration(ns).split(" ")

    assert float(number) * SCALES[unit] == pytest.approx(ns, rel=0.005)
    assert float(number) < 1000 or unit == "s"


@pytest.mark.parametrize(
    ("a_ns", "b_ns", "text"),
    [
        (24_400, 26_100, "24.4 -> 26.1 us"),
        (24_400, 24_410, "24.40 -> 24.41 us"),
        (24_400, 24_400, "24.4 -> 24.4 us"),
        (998, 1_003, "0.998 -> 1.00 us"),
        (3, 1_200_000, "3.00 ns -> 1.20 ms"),
        (0, 5, "0 ns -> 5.00 ns"),
        (0, 0, "0 -> 0 ns"),
    ],
)
def test_a_pair_shares_its_unit_and_is_told_apart(a_ns: float, b_ns: float, text: str) -> None:
    assert duration_pair(a_ns, b_ns) == text


@pytest.mark.parametrize(
    ("change", "signed", "unsigned"),
    [
        (0.07, "+7.0 %", "7 %"),
        (0.0007, "+0.07 %", "0.07 %"),
        (-0.025, "-2.5 %", "-2.5 %"),
        (0.123, "+12.3 %", "12.3 %"),
        (1.3, "+130 %", "130 %"),
        (1.0, "+100 %", "100 %"),
        (0.9996, "+100 %", "100 %"),
        (0.1, "+10.0 %", "10 %"),
        (-0.00001, "0 %", "0 %"),
        (0.0, "0 %", "0 %"),
        (math.inf, "+inf %", "inf %"),
    ],
)
def test_a_change_shows_its_sign_and_a_band_has_none(change: float, signed: str, unsigned: str) -> None:
    assert percent(change) == signed
    assert percent(change, signed=False) == unsigned


def test_a_count_agrees_with_its_noun() -> None:
    assert [count(n, "launch", "launches") for n in (0, 1, 12_000)] == [
        "0 launches",
        "1 launch",
        "12,000 launches",
    ]
    assert count(2, "run") == "2 runs"
