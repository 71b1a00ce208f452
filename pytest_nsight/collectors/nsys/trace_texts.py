"""The strings of a trace while it is built: each text once, by its number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_nsight.collectors.nsys.packed_columns import group_rows


class TraceTexts:
    """Texts, each kept once, and their numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def add(self, text: str) -> int:
        """The number of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    def add_all(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        """The number of each text: a traced program may name a million ranges, each in its own way."""
        numbers = self._numbers
        known, new = len(numbers), dict.fromkeys(texts)
        for text in numbers.keys() & new.keys():
            del new[text]
        numbers.update(zip(new, range(known, known + len(new)), strict=True))
        if len(new) == len(texts):
            return np.arange(known, known + len(new), dtype=np.int32)
        return np.fromiter(map(numbers.__getitem__, texts), np.int32, len(texts))

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts, in order of their numbers."""
        return tuple(self._numbers)


def number_ids(ids: npt.NDArray[Any], strings: Mapping[int, str], texts: TraceTexts) -> npt.NDArray[np.int32]:
    """Numbers of the texts with these ids; "" stands for no id.

    Args:
        ids: shape (rows,), ids of strings of an export.
        strings: string id -> text.
        texts: where the texts go.
    """
    codes, examples = group_rows([ids], len(ids))
    numbers = [texts.add(strings.get(int(ids[row]), "")) for row in examples]
    return np.asarray(numbers, np.int32)[codes]
