"""How numbers are written for people."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.model.units import (
    amount,
    count,
    duration,
    durations,
    interval_of_logs,
    name_cases,
    name_some,
    number,
    p_value,
    percent,
    percent_of_log,
)

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
def test_two_durations_share_a_unit_and_can_be_distinguished(a_ns: float, b_ns: float, text: str) -> None:
    assert durations(a_ns, b_ns) == text


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


def test_an_error_without_end_leaves_the_change_as_it_is() -> None:
    """That of a hostile result may be finite, and its percentage not."""
    assert percent(0.02, error=1e307) == percent(0.02, error=math.inf) == percent(0.02) == "+2.0 %"


def test_one_duration_and_three_have_one_unit_too() -> None:
    assert durations(2.5e9) == "2.50 s"
    assert durations(24_400, 26_100, 24_400, joined_by=" to ") == "24.4 to 26.1 to 24.4 us"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.07, "+7.0 %"), (0.9, "-10.0 %"), (0.9999, "-0.01 %"), (90, "+8900 %"), (1e6, "+1e+08 %"), (1, "0 %")],
)
def test_a_difference_of_log_times_is_a_signed_percentage(ratio: float, text: str) -> None:
    assert percent_of_log(math.log(ratio)) == text


def test_an_interval_has_its_unit_once() -> None:
    assert interval_of_logs(math.log(0.998), math.log(1.034)) == "-0.2 to +3.4 %"
    assert interval_of_logs(-1e9, 1e9).startswith("-100 to +")


@pytest.mark.parametrize(
    ("probability", "text"),
    [(2.04e-6, "p 2e-6"), (0.0301, "p 0.03"), (1.0, "p 1"), (0.0, "p <1e-99"), (9.6e-7, "p 1e-6")],
)
def test_a_p_value_has_one_or_two_digits(probability: float, text: str) -> None:
    assert p_value(probability) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4131.7, "4132"),
        (99.96, "100"),
        (85.24, "85.2"),
        (0.8192, "0.819"),
        (2.0, "2.00"),
        (1e-5, "<0.001"),
        (0, "0"),
    ],
)
def test_a_number_has_three_digits_or_all_before_the_point(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("how_much", "text"),
    [(0, "0 B"), (850, "850 B"), (999_600, "1.00 MB"), (2_147_483_648, "2.15 GB"), (4.19e12, "4.19 TB")],
)
def test_an_amount_has_a_decimal_prefix(how_much: float, text: str) -> None:
    assert amount(how_much, "B") == text


def test_a_count_agrees_with_its_noun() -> None:
    assert [count(n, "launch", "launches") for n in (0, 1, 12_000)] == [
        "0 launches",
        "1 launch",
        "12,000 launches",
    ]
    assert [count(2, noun) for noun in ("run", "launch", "copy", "day")] == [
        "2 runs",
        "2 launches",
        "2 copies",
        "2 days",
    ]


@pytest.mark.parametrize(("separator", "sentence"), [(", ", "a, b and 2 more"), ("; ", "a; b; and 2 more")])
def test_of_many_texts_the_first_are_named(separator: str, sentence: str) -> None:
    assert name_some("abcd", 2, separator) == sentence
    assert name_some("ab", 2) == "a, b"
    assert name_some("") == ""


def test_a_long_name_of_a_case_is_shortened_in_a_sentence():
    long = f"test_a[{'x' * 5000}-last]"

    assert name_cases(["test_b", long, "c", "d"]) == f"test_b, {long[:46]}...{long[-71:]}, c and 1 more"
    assert name_cases(["y" * 120]) == "y" * 120
