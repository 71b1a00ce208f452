"""Strict reading of decoded JSON: an error names the record, its field and the value that is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, TypeGuard

from pytest_nsight.model.errors import BaselineError

_LARGEST = 2**63 - 1
_SHOWN = 60


class Record:
    """A JSON object whose fields are taken one by one, with their types checked.

    Args:
        value: what the JSON decoder returned.
        where: what the object is, for messages: "run r1 of test_rms_norm[fused]".

    Raises:
        BaselineError: by every method, when a field is missing or of the wrong type.
    """

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise BaselineError(f"{where} is {shown(value)}, expected an object")
        self._fields: dict[str, Any] = dict(value)
        self.where = where

    def take(self, field: str) -> object:
        """The field's value, whatever its type."""
        if field not in self._fields:
            raise BaselineError(f'{self.where} has no field "{field}"')
        return self._fields.pop(field)

    def text(self, field: str) -> str:
        """A string."""
        value = self.take(field)
        if not isinstance(value, str):
            raise self.wrong(field, value, "a string")
        return value

    def flag(self, field: str) -> bool:
        """A truth value."""
        value = self.take(field)
        if not isinstance(value, bool):
            raise self.wrong(field, value, "true or false")
        return value

    def integer(self, field: str) -> int:
        """A whole number, zero or more."""
        value = self.take(field)
        if not is_count(value):
            raise self.wrong(field, value, "a whole number of at least 0")
        return value

    def optional_number(self, field: str) -> float | int | None:
        """A finite number; None where the field is absent."""
        if field not in self._fields:
            return None
        value = self.take(field)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self.wrong(field, value, "a number")
        return value

    def optional_integer(self, field: str) -> int | None:
        """A whole number, zero or more; None where the field is absent."""
        return self.integer(field) if field in self._fields else None

    def items(self, field: str) -> list[object]:
        """A list."""
        value = self.take(field)
        if not isinstance(value, list):
            raise self.wrong(field, value, "a list")
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of strings."""
        values = self.items(field)
        for value in values:
            if not isinstance(value, str):
                raise self.wrong(field, value, "strings")
        return tuple(str(value) for value in values)

    def counts(self, field: str) -> tuple[int, ...]:
        """A list of whole numbers, zero or more."""
        values = self.items(field)
        found = tuple(value for value in values if is_count(value))
        if len(found) < len(values):
            raise self.wrong(field, values, "whole numbers")
        return found

    def record(self, field: str) -> Record:
        """An object."""
        value = self.take(field)
        if not isinstance(value, dict):
            raise self.wrong(field, value, "an object")
        return Record(value, f'"{field}" of {self.where}')

    def optional_record(self, field: str) -> Record | None:
        """An object; None where the field is absent."""
        return self.record(field) if field in self._fields else None

    def names(self) -> Iterator[str]:
        """The names of the fields not yet taken."""
        return iter(tuple(self._fields))

    def finish(self) -> None:
        """Refuses fields that nobody took: a misspelt field must not be ignored."""
        if self._fields:
            field, value = next(iter(self._fields.items()))
            raise BaselineError(f'{self.where} has an unknown field "{field}" ({shown(value)})')

    def wrong(self, field: str, value: object, expected: str) -> BaselineError:
        """The error for a field whose value is not what was expected."""
        return BaselineError(f'field "{field}" of {self.where} is {shown(value)}, expected {expected}')


def is_count(value: object) -> TypeGuard[int]:
    """Whether the value is a whole number of 0 to 2**63 - 1; true and false are not numbers."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


def shown(value: object) -> str:
    """The value as JSON, cut to a length that fits a sentence."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
