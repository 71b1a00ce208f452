"""JSON text to one value, strictly, and values to short text for messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import NoReturn

from pytest_nsight.model.errors import NsightError

_SHOWN = 60


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
        return json.loads(text, object_pairs_hook=_unique_fields, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
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


def shown(value: object) -> str:
    """The value as ASCII JSON, cut to a length that fits a sentence."""
    if isinstance(value, (list, dict)) and len(value) > 1:
        return f"a list of {len(value)} items" if isinstance(value, list) else f"an object of {len(value)} fields"
    if isinstance(value, str):
        value = value[:_SHOWN]
    try:
        text = json.dumps(value)
    except (RecursionError, ValueError):
        return "a value nested too deeply, or a number too long"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
