"""Files beside the baselines of a GPU model that hold one line of JSON a case: git merges them line by line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_nsight.baselines.atomic_files import explaining, read_regular_file, replace
from pytest_nsight.model.decoding import read
from pytest_nsight.model.errors import BaselineError
from pytest_nsight.model.json_text import DecodingError, parse

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Line = TypeVar("_Line", bound="DataclassInstance")


def read_lines(path: Path, cls: type[_Line], version: int) -> tuple[_Line, ...]:
    """The lines of a file; none where there is no such file.

    Args:
        path: the file.
        cls: dataclass of a line, whose field `format` has the version.
        version: the one that is understood.

    Raises:
        BaselineError: the file is damaged, cannot be read, or another version has written it.
    """
    if not path.exists():
        return ()
    with explaining("read", path):
        texts = read_regular_file(path).decode("utf-8", "replace").splitlines()
    return tuple(_read_line(f"{path}, line {number}", text, cls, version) for number, text in enumerate(texts, 1))


def _read_line(place: str, text: str, cls: type[_Line], version: int) -> _Line:
    try:
        content = parse(text)
        # Before the fields: another version may have others.
        if isinstance(content, dict) and content.get("format", version) != version:
            raise BaselineError(
                f"{place} has format {content['format']}, {version} is known; use the version that wrote it"
            )
        return read(cls, content)
    except DecodingError as error:
        raise BaselineError(f"{place} is damaged: {error}; restore the file from git") from None


def replace_lines(path: Path, lines: Iterable[DataclassInstance]) -> None:
    """Writes a file whole.

    Raises:
        BaselineError: the folder or its disk does not allow it; the old file is unchanged.
    """
    replace(path, "".join(json.dumps(dataclasses.asdict(line), sort_keys=True) + "\n" for line in lines))
