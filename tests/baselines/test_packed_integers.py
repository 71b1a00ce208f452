"""Packed whole numbers: exact, short, and never more than asked for."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.baselines.packed_integers import PackingError, pack, unpack

_numbers = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 100) | st.sampled_from([0, 32, 64]), max_size=40)


@given(_numbers)
def test_unpacking_gives_back_the_numbers(numbers: list[int]) -> None:
    assert unpack(pack(numbers), 40) == tuple(numbers)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((), "0x0"),
        ((7,), "1x7"),
        ((2144,) * 100, "100x2144"),
        # Codes 0, 0 and 2 of order 0: 1 1 011, then zeros to a whole byte.
        ((2144, 2144, 2176), "3x2144+32k0:2A"),
        # Codes 1, 3, 0 and 2 of order 1: 11 0101 10 0100.
        ((5, 4, 6, 7), "4x6k1:1kA"),
    ],
)
def test_the_form_stays_as_it_is(numbers: tuple[int, ...], text: str) -> None:
    """Files of this form are stored: a change of it needs a new version of the format."""
    assert unpack(text, 100) == numbers
    assert pack(numbers) == text


def test_typical_rounds_take_a_quarter_of_their_decimals() -> None:
    noise = random.Random(1)
    rounds = [24_400 + 32 * round(noise.gauss(0, 2)) for _ in range(100)]

    assert len(pack(rounds)) < len(",".join(map(str, rounds))) / 4


def test_an_outlier_costs_itself_and_not_the_others() -> None:
    noise = random.Random(1)
    rounds = [24_400 + round(noise.gauss(0, 20)) for _ in range(100)]

    assert len(pack([*rounds, 50_000_000])) < len(pack(rounds)) + 12


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the form"),
        ("3x", "expected the form"),
        ("٣x5", "expected the form"),
        ("3x2144+32k0:2A\n", "expected the form"),
        ("-3x5", "expected the form"),
        ("101x0", "holds 101 numbers, and 100 is the most that is read"),
        ("999999999x0", "holds 999999999 numbers"),
        ("3x2144+32k0:0", "not base64"),
        ("100x2144+32k0:2A", "ends after 3 of 100 numbers"),
        ("3x2144k99:0A", "ends after 0 of 3 numbers"),
        ("3x2144+32k0:2AAA", "goes on after 3 numbers"),
        ("3x2144+32k0:/w", "goes on after 3 numbers"),
        ("2x9999999999999999999", "holds 9999999999999999999 to"),
        ("1x9223372036854775807k0:YA", "expected 0 to 2"),
        ("1x0k0:QA", "holds -1 to -1, expected 0 to"),
    ],
)
def test_what_pack_does_not_write_is_refused(text: str, message: str) -> None:
    with pytest.raises(PackingError) as caught:
        unpack(text, 100)

    assert message in str(caught.value)


@pytest.mark.slow
@given(st.from_regex(r"\A[0-9]{1,3}x[0-9]{1,19}\+[0-9]{1,19}k[0-9]{1,2}:[A-Za-z0-9+/]{0,40}\Z"))
def test_any_text_of_the_form_is_numbers_or_refused(text: str) -> None:
    try:
        numbers = unpack(text, 100)
    except PackingError:
        return
    assert len(numbers) <= 100
    assert all(0 <= number < 2**63 for number in numbers)
    assert unpack(pack(numbers), 100) == numbers
