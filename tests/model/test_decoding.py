"""Strict reading: what a dataclass does not declare is refused with its place, and nothing is converted."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from pytest_nsight.model.decoding import AsRow, Bounds, Count, read
from pytest_nsight.model.json_text import DecodingError, parse, shown


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Part:
    name: str
    count: Count = 0


@dataclass(frozen=True)
class Row:
    key: str
    size: int
    note: str = ""


@dataclass(frozen=True)
class Whole:
    text: str = ""
    flag: bool = False
    signed: int = 0
    number: float = 0.0
    share: Annotated[float, Bounds(0, 1)] = 0.0
    optional: Count | None = None
    either: str | tuple[int, ...] | Part = ""
    parts: tuple[Part, ...] = ()
    extent: tuple[int, int] = (0, 0)
    named: Mapping[str, Part] = field(default_factory=dict)
    colour: Colour = Colour.RED
    row: Annotated[Row, AsRow()] = Row("", 0)
    anything: object = None


def refusal(value: object) -> str:
    with pytest.raises(DecodingError) as caught:
        read(Whole, value)
    return str(caught.value)


def test_everything_declared_is_read() -> None:
    value = {
        "text": "a",
        "flag": True,
        "signed": -3,
        "number": 2,
        "share": 0.5,
        "optional": None,
        "either": [1, 2],
        "parts": [{"name": "p"}, {"name": "q", "count": 7}],
        "extent": [4, 5],
        "named": {"x": {"name": "y"}},
        "colour": "blue",
        "row": ["k", 8],
        "anything": [{"free": 1.5}],
    }

    found = read(Whole, value)

    assert found == Whole(
        "a",
        flag=True,
        signed=-3,
        number=2.0,
        share=0.5,
        either=(1, 2),
        parts=(Part("p"), Part("q", 7)),
        extent=(4, 5),
        named={"x": Part("y")},
        colour=Colour.BLUE,
        row=Row("k", 8),
        anything=[{"free": 1.5}],
    )
    assert isinstance(found.number, float)
    assert read(Whole, {"either": {"name": "p"}}).either == Part("p")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"text": 5}, "text is 5, expected a string"),
        ({"text": "\ud800"}, 'text is "\\ud800", expected text, which half of a surrogate pair is not'),
        ({"flag": 1}, "flag is 1, expected true or false"),
        ({"signed": True}, "signed is true, expected a whole number"),
        ({"signed": 1.0}, "signed is 1.0, expected a whole number"),
        ({"signed": 2**63}, "signed is 9223372036854775808, expected a whole number"),
        ({"number": "1"}, 'number is "1", expected a finite number'),
        ({"number": float("inf")}, "number is Infinity, expected a finite number"),
        ({"number": 10**400}, "expected a finite number"),
        ({"share": 1.5}, "share is 1.5, expected a finite number from 0 to 1"),
        ({"optional": -1}, "optional is -1, expected a whole number of at least 0"),
        ({"optional": "x"}, 'optional is "x", expected a number'),
        ({"either": 5}, "either is 5, expected an object or a list or a string"),
        ({"either": [1, "x"]}, 'either[1] is "x", expected a whole number'),
        ({"parts": {"name": "p"}}, 'parts is {"name": "p"}, expected a list'),
        ({"parts": [{"name": "p"}, {}]}, 'parts[1] has no field "name"'),
        ({"parts": [{"name": "p", "cuont": 1}]}, 'parts[0] has an unknown field "cuont"'),
        ({"extent": [1]}, "extent is [1], expected a list of 2"),
        ({"named": {"a b": {"name": 1}}}, 'named["a b"].name is 1, expected a string'),
        ({"colour": "green"}, 'colour is "green", expected one of red, blue'),
        ({"colour": []}, "colour is [], expected one of red, blue"),
        ({"row": ["k"]}, 'row is ["k"], expected a list of 2 to 3'),
        ({"row": ["k", "x"]}, 'row.size is "x", expected a whole number'),
        ([], "the document is [], expected an object"),
    ],
)
def test_anything_else_is_refused_with_its_place(value: object, message: str) -> None:
    assert message in refusal(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is invalid JSON at line 1"),
        ("{\n oops", "is invalid JSON at line 2"),
        ('{"a": 1, "b": 2, "a": 1}', 'has the field "a" twice in one object'),
        ("[NaN]", "holds NaN, which is not a number"),
        ("[-Infinity]", "holds -Infinity, which is not a number"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "a number too long"),
    ],
)
def test_text_that_is_not_one_json_value_is_refused(text: str, message: str) -> None:
    with pytest.raises(DecodingError, match=r"the document ") as caught:
        parse(text)
    assert message in str(caught.value)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(list(Whole.__dataclass_fields__)), _json) | _json)
def test_any_value_is_read_or_refused_in_one_line(value: object) -> None:
    try:
        found = read(Whole, value)
    except DecodingError as refused:
        text = str(refused)
        event("refused")
        is_one_line = text.isprintable() and "\n" not in text
        assert is_one_line
    else:
        event("read")
        assert read(Whole, json.loads(json.dumps(asdict(found) | {"colour": found.colour.value, "row": ["", 0]})))


@given(_json)
def test_a_value_is_shown_short_and_in_ascii(value: object) -> None:
    assert shown(value).isascii()
    assert len(shown(value)) <= 60
