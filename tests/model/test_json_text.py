"""Whatever a test puts into a value, its line of the manifest is text that the reader takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.model.json_text import format_any, parse

KEYS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.tuples(st.integers()))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
    st.complex_numbers(),
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner))


class Speechless:
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@given(VALUES)
def test_any_value_is_read_back(value):
    read = parse(format_any({"value": value}))

    assert isinstance(read, dict)
    assert list(read) == ["value"]
    # No half of a surrogate pair is left, which no file takes.
    repr(read).encode()


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (float("nan"), "nan"),
        ([1.5, float("-inf")], [1.5, "-inf"]),
        ({1: "a", "1": "b"}, "{1: 'a', '1': 'b'}"),
        ({(1, 2): 3}, {"(1, 2)": 3}),
        ("caf\udce9", r"caf\udce9"),
        ("\N{PILE OF POO}", "\N{PILE OF POO}"),
        (Speechless(), "a value of Speechless that has no text"),
        ({1: 2}, {"1": 2}),
        (10**30, 10**30),
    ],
)
def test_what_json_cannot_say_becomes_text(value, read):
    assert parse(format_any(value)) == read


@pytest.mark.parametrize("value", [10**5000, nested(100_000)], ids=["long", "nested"])
def test_a_value_beyond_the_readers_limits_is_described(value):
    assert parse(format_any({"value": value, "other": 1}))["other"] == 1
