"""Strict reading of JSON into frozen dataclasses: a wrong value is refused, and its place is named.

A file of another machine, or of another year, may hold anything. `json_text.parse` refuses text that is not one
JSON value with one meaning; `read` refuses every value that its dataclass does not declare. Neither converts: the
text "7" is not 7, and 7 is not true. docs/decisions/0018 compares this with libraries.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Annotated, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pytest_nsight.model.json_text import DecodingError, shown

_Read = TypeVar("_Read")
_Reader = Callable[[object], object]

_LARGEST = 2**63 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class AsRow:
    """Marks, in `Annotated`, a dataclass whose JSON is a list of its fields in order."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """The values that a number may have, for `Annotated`: `Annotated[float, Bounds(0, 1)]`."""

    least: float
    most: float


Count = Annotated[int, Bounds(0, _LARGEST)]
"""A whole number from 0 to 2**63 - 1. A plain `int` may also be negative."""


def read(cls: type[_Read], value: object) -> _Read:
    """The dataclass that a parsed JSON object describes.

    Understood are dataclasses (read from a list where `Annotated` says `AsRow`), `str`, `bool`, `int`, `float`,
    `Annotated` numbers with a `Bounds`, enumerations by value, `tuple[X, ...]`, `tuple[X, Y]`, `Mapping[str, X]`,
    `object` for any value, and unions of those that differ in their JSON type. A field with a default may be
    absent; an unknown one is refused.

    Args:
        cls: the dataclass.
        value: what `parse` returned.

    Raises:
        DecodingError: a value has another type or lies outside its range, a field is missing or unknown, a text
            cannot be encoded as UTF-8.
    """
    return cast("_Read", _reader_of(cast("Hashable", cls))(value))


def _wrong(value: object, expected: str) -> DecodingError:
    return DecodingError("", f"is {shown(value)}, expected {expected}")


@cache
def _reader_of(hint: Hashable) -> _Reader:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        is_row = isinstance(arguments[1], AsRow)
        return _dataclass_row_reader(arguments[0]) if is_row else _number_reader(arguments[0], arguments[1])
    if origin in (Union, types.UnionType):
        return _union_reader(arguments)
    if origin is tuple:
        return _list_reader(arguments[0]) if arguments[-1] is Ellipsis else _row_reader(arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_reader(arguments[1])
    return _class_reader(hint)


def _class_reader(hint: object) -> _Reader:
    simple: Mapping[object, _Reader] = {
        str: _read_text,
        bool: _read_flag,
        int: _number_reader(int, Bounds(-_LARGEST - 1, _LARGEST)),
        float: _number_reader(float, Bounds(-math.inf, math.inf)),
        type(None): _read_null,
        object: lambda value: value,
    }
    if hint in simple:
        return simple[hint]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enum_reader(hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _dataclass_reader(hint)
    raise TypeError(f"{hint} is no type that JSON is read into")


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(value, "a string")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise _wrong(value, "text, which half of a surrogate pair is not") from None
    return value


def _read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(value, "true or false")
    return value


def _read_null(value: object) -> None:
    if value is not None:
        raise _wrong(value, "null")


def _number_reader(cls: object, allowed: Bounds) -> _Reader:
    is_whole = cls is int
    types_ = (int,) if is_whole else (int, float)
    limits = f" of at least {allowed.least:g}" if allowed.most >= _LARGEST and allowed.least >= 0 else ""
    if allowed.least >= -_LARGEST and allowed.most < _LARGEST:
        limits = f" from {allowed.least:g} to {allowed.most:g}"
    expected = f"a {'whole' if is_whole else 'finite'} number{limits}"

    def read_number(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, types_) or not allowed.least <= value <= allowed.most:
            raise _wrong(value, expected)
        if is_whole:
            return value
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise _wrong(value, expected)
        return number

    return read_number


def _enum_reader(cls: type[enum.Enum]) -> _Reader:
    members = {member.value: member for member in cls}

    def read_member(value: object) -> enum.Enum:
        if not isinstance(value, (str, int)) or value not in members:
            raise _wrong(value, f"one of {', '.join(map(str, members))}")
        return members[value]

    return read_member


def _list_reader(item: object) -> _Reader:
    read_item = _reader_of(item)

    def read_list(value: object) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise _wrong(value, "a list")
        index = 0
        items = []
        try:
            for index, element in enumerate(value):  # noqa: B007 - the error names the index
                items.append(read_item(element))
        except DecodingError as error:
            raise DecodingError(f"[{index}]{error.place}", error.fault) from None
        return tuple(items)

    return read_list


def _row_reader(items: Sequence[object]) -> _Reader:
    readers = tuple(map(_reader_of, items))

    def read_row(value: object) -> tuple[object, ...]:
        if not isinstance(value, list) or len(value) != len(readers):
            raise _wrong(value, f"a list of {len(readers)}")
        return tuple(_within(f"[{n}]", reader, value[n]) for n, reader in enumerate(readers))

    return read_row


def _mapping_reader(item: object) -> _Reader:
    read_item = _reader_of(item)

    def read_mapping(value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise _wrong(value, "an object")
        return {_read_text(name): _within(_at(name), read_item, entry) for name, entry in value.items()}

    return read_mapping


def _union_reader(members: Sequence[object]) -> _Reader:
    readers = {_json_type(member): _reader_of(member) for member in members}
    if len(readers) < len(members):
        raise TypeError(f"the members of {members} have the same type in JSON")
    if float in readers:
        readers.setdefault(int, readers[float])
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", int: "a number"}
    expected = " or ".join(name for cls, name in names.items() if cls in readers)

    def read_member(value: object) -> object:
        reader = readers.get(type(value))
        if reader is None:
            raise _wrong(value, expected)
        return reader(value)

    return read_member


def _json_type(hint: object) -> type:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _json_type(arguments[0])
    if origin is tuple:
        return list
    if hint in (str, bool, int, float, type(None)):
        return cast("type", hint)
    return str if isinstance(hint, type) and issubclass(hint, enum.Enum) else dict


def _dataclass_reader(cls: type) -> _Reader:
    hints = get_type_hints(cls, include_extras=True)
    readers: dict[str, _Reader] = {}
    fields = [field for field in dataclasses.fields(cls) if field.init]
    missing = (dataclasses.MISSING, dataclasses.MISSING)
    required = [field.name for field in fields if (field.default, field.default_factory) == missing]

    def read_fields(value: object) -> object:
        if not readers:
            # Not before: a dataclass may hold others of its own class.
            readers.update({field.name: _reader_of(hints[field.name]) for field in fields})
        if not isinstance(value, dict):
            raise _wrong(value, "an object")
        for name in value:
            if name not in readers:
                raise DecodingError("", f"has an unknown field {shown(name)}")
        for name in required:
            if name not in value:
                raise DecodingError("", f'has no field "{name}"')
        return cls(**{name: _within(_at(name), readers[name], entry) for name, entry in value.items()})

    return read_fields


def _dataclass_row_reader(cls: type) -> _Reader:
    hints = get_type_hints(cls, include_extras=True)
    fields = [field for field in dataclasses.fields(cls) if field.init]
    readers = [(f".{field.name}", _reader_of(hints[field.name])) for field in fields]
    missing = (dataclasses.MISSING, dataclasses.MISSING)
    least = sum((field.default, field.default_factory) == missing for field in fields)

    def read_row(value: object) -> object:
        if not isinstance(value, list) or not least <= len(value) <= len(readers):
            raise _wrong(value, f"a list of {least} to {len(readers)}")
        return cls(*(_within(place, reader, entry) for (place, reader), entry in zip(readers, value, strict=False)))

    return read_row


def _at(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{shown(name)}]"


def _within(place: str, reader: _Reader, value: object) -> object:
    try:
        return reader(value)
    except DecodingError as error:
        raise DecodingError(place + error.place, error.fault) from None
