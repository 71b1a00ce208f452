"""The JSON files of sessions and runs, read with every value checked: whatever wrote them may have died, or lied.

JSON has no infinity: the largest double stands for it, and for what is no number.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TypeVar, cast

from pytest_nsight.model.decoding import read
from pytest_nsight.model.errors import RecordingError
from pytest_nsight.model.json_text import DecodingError, parse, shown

T = TypeVar("T")

_MOST_LINE_BYTES = 256 << 20
_LARGEST = sys.float_info.max


def read_known(cls: type[T], fields: Mapping[str, object]) -> T:
    """The dataclass that the fields describe, whose unknown ones are ignored: a newer version may have added them.

    Raises:
        DecodingError: a field is missing, or its value is not what the dataclass declares.
    """
    known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return read(cls, {name: value for name, value in fields.items() if name in known})


def read_json_file(cls: type[T], path: Path) -> T:
    """The dataclass that a file describes as one JSON object.

    Raises:
        RecordingError: the file cannot be read, or holds something else.
    """
    with _open(path) as file:
        text = file.read(_MOST_LINE_BYTES)
    try:
        return read_known(cls, _parse_object(text))
    except DecodingError as error:
        raise damaged(path, 0, error) from None


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Line number and JSON object of each line of a file; a last line without its end is ignored.

    Raises:
        RecordingError: the file cannot be read, or a line holds something else.
    """
    with _open(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(_MOST_LINE_BYTES), b""), 1):
            if len(line) == _MOST_LINE_BYTES and not line.endswith(b"\n"):
                fault = f"is longer than {_MOST_LINE_BYTES >> 20} MiB"
                raise damaged(path, number, DecodingError("", fault))
            if not line.endswith(b"\n"):
                # Its process may be writing it: what comes next is the rest of this line, and no line.
                return
            try:
                fields = _parse_object(line)
            except DecodingError as error:
                raise damaged(path, number, error) from None
            yield number, fields


def damaged(path: Path, line: int, error: DecodingError) -> RecordingError:
    """The error for a file that holds what this program never writes; line 0 stands for the whole file."""
    where = f"{path}, line {line}" if line else str(path)
    return RecordingError(f"{where} is damaged: {error}; remove {path.parent}, or record it again")


def _open(path: Path) -> IO[bytes]:
    try:
        # Opening a pipe waits for its writer, and a device never ends.
        if not stat.S_ISREG(path.stat().st_mode):
            raise RecordingError(f"{path} is not a regular file; remove {path.parent}, or record it again")
        return path.open("rb")
    except OSError as error:
        raise RecordingError(f"{path} cannot be read ({error.strerror}); is this a session's folder?") from None


def _parse_object(text: bytes) -> dict[str, object]:
    value = parse(text.decode("utf-8", "replace"))
    if not isinstance(value, dict):
        raise DecodingError("", f"is {shown(value)}, expected an object")
    return value


def write_json(value: object) -> str:
    """A dataclass as JSON, one line, newline at its end; `read_json_file` and `restored` read it back."""
    return json.dumps(_plain(value), allow_nan=False, separators=(",", ":")) + "\n"


def restored(value: T) -> T:
    """A dataclass that was read, with infinity where the largest double stands for it."""
    found: object = value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: restored(getattr(value, field.name)) for field in dataclasses.fields(value)}
        found = dataclasses.replace(value, **fields)
    elif isinstance(value, tuple):
        found = tuple(restored(item) for item in value)
    elif isinstance(value, float) and abs(value) == _LARGEST:
        found = math.copysign(math.inf, value)
    return cast("T", found)


def _plain(value: object) -> object:
    """The value as JSON knows it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return math.copysign(_LARGEST, value)
    return value
