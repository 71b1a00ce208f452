import math

import pytest

from pytest_nsight.judge.wording import (
    write_change,
    write_count,
    write_durations,
    write_interval,
    write_names,
    write_p,
    write_percent,
)


@pytest.mark.parametrize(
    ("durations", "text"),
    [
        ((24_400, 26_100), "24.4 -> 26.1 us"),
        ((950_000, 1_050_000), "950 -> 1050 us"),
        ((1_421_000, 1_437_000), "1.42 -> 1.44 ms"),
        ((512, 640), "512 -> 640 ns"),
        ((2.5e9,), "2.50 s"),
        ((0.0, 5.0), "0 -> 5.00 ns"),
    ],
)
def test_durations_share_the_unit_that_suits_the_smaller(durations, text):
    assert write_durations(*durations) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.07, "+7.0 %"), (0.9, "-10.0 %"), (0.9999, "+0.0 %"), (90, "+8900 %"), (1e6, "+1e+08 %")]
)
def test_changes_are_signed_percentages(ratio, text):
    assert write_change(math.log(ratio)) == text


@pytest.mark.parametrize(
    ("p_value", "text"),
    [(2.04e-6, "p 2e-6"), (0.0301, "p 0.03"), (1.0, "p 1"), (0.0, "p <1e-99"), (9.6e-7, "p 1e-6")],
)
def test_p_values_have_one_or_two_digits(p_value, text):
    assert write_p(p_value) == text


def test_intervals_name_their_confidence():
    assert write_interval(math.log(0.998), math.log(1.004)) == "90 % CI -0.2 to +0.4 %"


def test_percentages_drop_idle_zeros():
    assert [write_percent(ratio) for ratio in (0.02, 0.025, 0.0333333)] == ["2 %", "2.5 %", "3.33 %"]


def test_counts_agree_with_their_nouns():
    assert [write_count(1, "launch"), *(write_count(2, noun) for noun in ("launch", "run", "copy"))] == [
        "1 launch",
        "2 launches",
        "2 runs",
        "2 copies",
    ]


def test_long_lists_of_names_are_cut():
    assert write_names("abcdefghij") == "a, b, c, d, e, f, g, h and 2 more"
