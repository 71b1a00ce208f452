"""Integer columns: several as fields of one 63-bit word, and the distinct rows of several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_nsight.model.sorted_keys import rank_values
from pytest_nsight.model.trace import Ints

WORD_BITS = 63
LOWEST, HIGHEST = -(2**63), 2**63 - 1
"""The bounds of SQLite's integers."""


class Field(NamedTuple):
    """A column's place in a word.

    Attributes:
        name: of the column.
        sql: the expression that gives its value.
        low: smallest value that has room.
        bits: how many it takes, none if all values are the same; a field of more than WORD_BITS is a word of
            its own, without a low.
    """

    name: str
    sql: str
    low: int
    bits: int

    @classmethod
    def between(cls, name: str, sql: str, lowest: object, highest: object) -> Field:
        """A field with room from the lowest value to the highest; for any integer if these are none."""
        if not isinstance(lowest, int | float) or not isinstance(highest, int | float):
            return cls(name, sql, LOWEST, WORD_BITS + 1)
        if lowest >= LOWEST and highest <= HIGHEST and (span := int(highest) - int(lowest)) < 1 << WORD_BITS:
            return cls(name, sql, int(lowest), span.bit_length())
        return cls(name, sql, LOWEST, WORD_BITS + 1)

    @property
    def high(self) -> int:
        """Largest value that has room."""
        return self.low + (1 << self.bits) - 1

    @property
    def condition(self) -> str:
        """An SQL condition: the value is a number, and has room."""
        # Every text and blob is larger than every number.
        between = f"BETWEEN {self.low} AND {self.high}"
        return f"({self.sql}) {between if self.bits else f'= {self.low}'}"

    def widen(self) -> Field:
        """The field with as much room again, half of it below and half above; what is constant stays so."""
        margin = (1 << self.bits) // 2
        return Field.between(self.name, self.sql, self.low - margin, self.high + margin)


Word = tuple[Field, ...]


def pack(fields: Iterable[Field]) -> list[Word]:
    """Words that fields share, widest first, each into the first word with room."""
    words: list[list[Field]] = []
    for field in sorted(fields, key=lambda f: -f.bits):
        fitting = (word for word in words if sum(f.bits for f in word) + field.bits <= WORD_BITS)
        word = next(fitting, None)
        if word is None:
            words.append([field])
        else:
            word.append(field)
    return [tuple(word) for word in words]


def join_words(words: Sequence[Word]) -> list[str]:
    """SQL aggregates that give the words of all rows, separated by commas."""
    joined = []
    for word in words:
        shift, terms = 0, ["0"]
        for field in word:
            if not field.bits:
                continue
            term = f"(({field.sql}) - ({field.low}))" if field.bits <= WORD_BITS else f"({field.sql})"
            terms.append(f"({term} << {shift})" if shift else term)
            shift += field.bits
        # The operator makes an integer of whatever number it gets.
        joined.append(f"CAST(group_concat({' | '.join(terms)}) AS BLOB)")
    return joined


def unpack(values: npt.NDArray[np.int64], word: Word) -> dict[str, npt.NDArray[np.signedinteger[Any]]]:
    """The fields of words, int32 where that suffices."""
    arrays: dict[str, npt.NDArray[np.signedinteger[Any]]] = {}
    shift = 0
    for field in word:
        if field.bits > WORD_BITS:
            arrays[field.name] = values
            continue
        part = (values >> shift) & ((1 << field.bits) - 1)
        is_short = field.low >= -(2**31) and field.high < 2**31
        arrays[field.name] = (part + field.low).astype(np.int32 if is_short else np.int64, copy=False)
        shift += field.bits
    return arrays


def group_rows(columns: Sequence[npt.NDArray[Any]], rows: int) -> tuple[Ints, Ints]:
    """The distinct combinations of values, numbered in order of their first row.

    Args:
        columns: shape (rows,) each, integers.
        rows: their length.

    Returns:
        Shape (rows,), the number of each row's combination; and the first row of each combination.
    """
    # One number stands for the values so far. Ranks keep it below the number of rows, where counting replaces
    # sorting; most columns hold one value, or few that lie close together.
    key, size = np.zeros(rows, np.int64), 1
    for column in columns if rows else ():
        lowest = column.min()
        span = int(column.max()) - int(lowest) + 1
        if span == 1:
            continue
        places = column - lowest if span <= rows else None
        if size * span > rows:
            values, key = rank_values(key)
            size = len(values)
        if places is None or size * span > rows:
            values, places = rank_values(column)
            span = len(values)
        key, size = key * span + places, size * span
    values, codes = rank_values(key)
    first = np.zeros(len(values), np.int64)
    first[codes[::-1]] = np.arange(rows - 1, -1, -1)
    order = np.argsort(first)
    return np.argsort(order)[codes], first[order]
