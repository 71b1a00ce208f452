"""Frozen dataclasses from JSON that somebody else wrote: every value is checked before it is used.

The type hints of the dataclass are the schema. A field may be missing where it has a default. A field that the
class lacks is ignored, so that an older version can read what a newer one wrote.
"""

from __future__ import annotations

import dataclasses
import json
import math
import stat
import types
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pytest_nsight.model.errors import RecordingError

T = TypeVar("T")
Decoder = Callable[[Any, str], Any]

_LARGEST = 2**63 - 1
_UNSIGNED = ("_ns", "_mj", "_mhz", "_w")
"""Endings of fields that hold an amount: it cannot be below zero."""

_MOST_LINE_BYTES = 256 << 20
_SHOWN = 60


class MalformedError(ValueError):
    """A value that is not what its field takes; the text names field, value and what is expected."""


def decode(kind: type[T], value: object, where: str) -> T:
    """A value of the class `kind` from decoded JSON.

    Args:
        kind: a frozen dataclass whose fields are str, int, float, bool, None, Any, tuples, mappings or dataclasses.
        value: what the JSON decoder returned.
        where: what the object is, for the message.

    Raises:
        MalformedError: a field is missing, or of another type, or no finite number, or beyond 64 bits.
    """
    decoded: T = _decoder(cast("Any", kind))(value, where)
    return decoded


def decode_file(kind: type[T], path: Path) -> T:
    """The value of a dataclass from a file that holds one JSON object.

    Raises:
        RecordingError: the file cannot be read, or holds something else.
    """
    try:
        return decode(kind, _parse(next(_lines(path, is_whole=True))[1]), "the file")
    except MalformedError as error:
        raise damaged(path, 0, str(error)) from None


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and JSON object of each line of a file; a last line that has no end is left out.

    Raises:
        RecordingError: the file cannot be read, or a line holds something else.
    """
    for number, line in _lines(path, is_whole=False):
        try:
            value = _parse(line)
        except MalformedError as error:
            raise damaged(path, number, str(error)) from None
        if not isinstance(value, dict):
            raise damaged(path, number, f"it is {shown(value)}, expected an object")
        yield number, value


def damaged(path: Path, line: int, reason: str) -> RecordingError:
    """The error for a file that holds what this program never wrote; line 0 stands for no line."""
    where = f"{path}, line {line}" if line else str(path)
    return RecordingError(f"{where} is damaged: {reason}; remove {path.parent}, or record it again")


def shown(value: object) -> str:
    """The value as JSON, cut to a length that fits a sentence."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _lines(path: Path, *, is_whole: bool) -> Iterator[tuple[int, bytes]]:
    try:
        # A pipe would be waited for, and a device never ends.
        if not stat.S_ISREG(path.stat().st_mode):
            raise RecordingError(f"{path} is no regular file; remove it, or name the session's own folder")
        with path.open("rb") as file:
            if is_whole:
                yield 1, file.read(_MOST_LINE_BYTES)
                return
            for number, line in enumerate(iter(lambda: file.readline(_MOST_LINE_BYTES), b""), 1):
                if line.endswith(b"\n"):
                    yield number, line
                elif len(line) == _MOST_LINE_BYTES:
                    raise damaged(path, number, f"the line is longer than {_MOST_LINE_BYTES >> 20} MiB")
    except OSError as error:
        raise RecordingError(f"{path} cannot be read ({error.strerror}); is this a session's folder?") from None


def _parse(line: bytes) -> object:
    try:
        return json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise MalformedError("it is no JSON") from None


@cache
def _decoder(kind: Any) -> Decoder:
    """A function that checks and converts a value; made once for each type, since a manifest has many lines."""
    if dataclasses.is_dataclass(kind):
        return _dataclass_decoder(kind)
    origin, parameters = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _optional_decoder([_decoder(one) for one in parameters if one is not type(None)])
    if origin is tuple:
        return _tuple_decoder(parameters)
    if origin in (dict, Mapping):
        return _mapping_decoder(_decoder(parameters[1]))
    if kind is Any:
        return lambda value, _where: value
    return _SCALARS[kind]


def _dataclass_decoder(kind: Any) -> Decoder:
    hints = get_type_hints(kind)
    required = {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    decoders = {
        field.name: _amount_decoder(_decoder(hints[field.name]))
        if field.name.endswith(_UNSIGNED)
        else _decoder(hints[field.name])
        for field in dataclasses.fields(kind)
    }

    def decode_fields(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise MalformedError(f"{where} is {shown(value)}, expected an object")
        if missing := required - value.keys():
            raise MalformedError(f'{where} has no field "{min(missing)}"')
        known = ((name, one) for name, one in value.items() if name in decoders)
        return kind(**{name: decoders[name](one, f'"{name}" of {where}') for name, one in known})

    return decode_fields


def _optional_decoder(decoders: list[Decoder]) -> Decoder:
    (decoder,) = decoders
    return lambda value, where: None if value is None else decoder(value, where)


def _tuple_decoder(parameters: tuple[Any, ...]) -> Decoder:
    is_uniform = parameters[-1] is Ellipsis
    decoders = [_decoder(one) for one in parameters if one is not Ellipsis]

    def decode_items(value: Any, where: str) -> Any:
        if not isinstance(value, list) or not (is_uniform or len(value) == len(decoders)):
            raise MalformedError(f"{where} is {shown(value)}, expected a list")
        if is_uniform:
            return tuple(decoders[0](one, where) for one in value)
        return tuple(decoder(one, where) for decoder, one in zip(decoders, value, strict=True))

    return decode_items


def _mapping_decoder(decoder: Decoder) -> Decoder:
    def decode_values(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise MalformedError(f"{where} is {shown(value)}, expected an object")
        return {name: decoder(one, f'"{name}" of {where}') for name, one in value.items()}

    return decode_values


def _amount_decoder(decoder: Decoder) -> Decoder:
    def decode_amount(value: Any, where: str) -> Any:
        decoded = decoder(value, where)
        if decoded is not None and decoded < 0:
            raise MalformedError(f"{where} is {shown(value)}, expected at least 0")
        return decoded

    return decode_amount


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise MalformedError(f"{where} is {shown(value)}, expected a string")
    return value


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise MalformedError(f"{where} is {shown(value)}, expected true or false")
    return value


def _integer(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST:
        raise MalformedError(f"{where} is {shown(value)}, expected a whole number of 64 bits")
    return value


def _number(value: Any, where: str) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or (isinstance(value, int) and abs(value) > _LARGEST) or not math.isfinite(value):
        raise MalformedError(f"{where} is {shown(value)}, expected a finite number")
    return float(value)


_SCALARS: dict[Any, Decoder] = {str: _text, bool: _flag, int: _integer, float: _number}
