"""JSON text to one value, strictly; any value to such text, and to short text for messages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

# By name: a test may replace what the module holds, and its events must still be written.
from json import JSONDecodeError, dumps, loads
from typing import NoReturn

from pytest_nsight.model.errors import NsightError

_SHOWN = 60
_MOST_NESTED = 50
_MOST_BITS = 256


class DecodingError(NsightError):
    """Text that is no JSON, or a value that its dataclass does not declare.

    The message names neither the file nor a remedy: the caller adds both.

    Attributes:
        place: path of the value in the document, such as `.runs[3].clocks`, "" for the whole document.
        fault: what is wrong there.
    """

    def __init__(self, place: str, fault: str) -> None:
        """Joins both into the message."""
        super().__init__(f"{place.lstrip('.') or 'the document'} {fault}")
        self.place = place
        self.fault = fault


def parse(text: str) -> object:
    """The value of a JSON text.

    Raises:
        DecodingError: the text is no JSON, is nested too deeply, names a field twice, or holds NaN or Infinity.
    """
    try:
        return loads(text, object_pairs_hook=_unique_fields, parse_constant=_refuse_constant)
    except JSONDecodeError as error:
        raise DecodingError("", f"is invalid JSON at line {error.lineno} ({error.msg.lower()})") from error
    except (RecursionError, ValueError) as error:
        raise DecodingError("", "is invalid JSON (nested too deeply, or a number too long)") from error


def _unique_fields(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise DecodingError("", f"has the field {shown(twice)} twice in one object")
    return fields


def _refuse_constant(name: str) -> NoReturn:
    raise DecodingError("", f"holds {name}, which is not a number")


def format_any(value: object) -> str:
    """JSON text that `parse` takes, whatever a test has put into the value.

    What JSON has no word for becomes text: values of other types, NaN, infinities, numbers too long, and objects
    whose keys would become equal. Half of a surrogate pair becomes its escape.
    """
    try:
        text = dumps(value, default=str)
        parse(text)
    except Exception:
        return dumps(_make_plain(value, 0))
    return dumps(_make_plain(value, 0)) if "\\ud" in text else text


def _make_plain(value: object, depth: int) -> object:
    """What JSON can say of a value; `depth` lists and objects are around it."""
    if depth > _MOST_NESTED:
        return "..."
    if isinstance(value, dict):
        fields = {_describe(key): _make_plain(item, depth + 1) for key, item in value.items()}
        return fields if len(fields) == len(value) else _describe(value)
    if isinstance(value, list | tuple):
        return [_make_plain(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return _describe(value)
    if value is None or isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= _MOST_BITS):
        return value
    return _describe(value)


def _describe(value: object) -> str:
    """The value as text that any file takes."""
    try:
        text = str(value)
    except Exception:
        text = f"a value of {type(value).__name__} that has no text"
    return text.encode("utf-8", "backslashreplace").decode()


def shown(value: object) -> str:
    """The value as ASCII JSON, cut to a length that fits a sentence."""
    if isinstance(value, (list, dict)) and len(value) > 1:
        return f"a list of {len(value)} items" if isinstance(value, list) else f"an object of {len(value)} fields"
    if isinstance(value, str):
        value = value[:_SHOWN]
    try:
        text = dumps(value)
    except (RecursionError, ValueError):
        return "a value nested too deeply, or a number too long"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
