"""Tables that fit a width, and how names, sizes and rates are written in them.

MERGED: The heaviest rows of a table, and one row for all that is left.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_nsight.model.trace import Ints
from pytest_nsight.model.units import count, number
from pytest_nsight.report.table import Column, align

NARROWEST, WIDEST = 80, 160
ELLIPSIS = ".."
_NAME_WIDTH = 24
_GAP_WIDTH = 2


@dataclass(frozen=True, slots=True)
class Section:
    """A table under a title.

    Attributes:
        title: one sentence.
        names: the first column.
        groups: the other columns, those together that belong together: where not all fit beside the names, each
            group makes a table of its own, under the same names.
        footnote: a sentence below the table, "" for none.
    """

    title: str
    names: Column
    groups: Sequence[Sequence[Column]]
    footnote: str = ""

    def render(self, width: int) -> str:
        """The section as text, no newline at its end.

        Args:
            width: the most characters that a line may have.
        """
        whole = [column for group in self.groups for column in group]
        taken = sum(column.width + _GAP_WIDTH for column in whole)
        fits = min(self.names.width, _NAME_WIDTH) + taken <= width
        tables = [
            _rule_off(align([self.names, *group], width, ELLIPSIS)) for group in self._split(whole, fits=fits)
        ]
        lines = [*wrap(self.title, width), *"\n\n".join(tables).splitlines(), *wrap(self.footnote, width)]
        return "\n".join(lines)

    def _split(self, whole: Sequence[Column], *, fits: bool) -> Sequence[Sequence[Column]]:
        return [whole] if fits else self.groups


def wrap(text: str, width: int) -> list[str]:
    """The lines of a sentence, none for an empty one."""
    return textwrap.wrap(text, width, break_on_hyphens=False)


def printable(text: str) -> str:
    """A name of the traced program without what would move the cursor or colour the terminal."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def bandwidth(bytes_moved: float, duration_ns: float) -> str:
    """Bytes over time in GB/s; "-" where there is no time."""
    return number(bytes_moved / duration_ns) if duration_ns else "-"


def _rule_off(lines: Sequence[str]) -> str:
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


Cells = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Which row each item is added to.

    Attributes:
        cells: what is written first in each row; the last one may be that of the others.
        row: shape (items,).
    """

    cells: tuple[Cells, ...]
    row: Ints


def rank(keys: Sequence[Cells], codes: npt.NDArray[np.signedinteger[Any]], weights: Ints, top: int) -> Ranking:
    """Give the keys with the most weight a row of their own.

    Args:
        keys: the distinct keys of the items, or more; all of one length; equal ones are one.
        codes: shape (items,), which key each item has.
        weights: shape (items,), not negative.
        top: how many rows there are beside that of the others.

    Returns:
        Rows by falling weight; of equal ones in order of the keys.
    """
    distinct = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    merged = np.array([distinct[key] for key in keys], np.int64)[codes]
    totals = np.bincount(merged, weights, minlength=len(distinct))
    used = np.flatnonzero(np.bincount(merged, minlength=len(distinct)))
    ranked = used[np.argsort(-totals[used], kind="stable")]
    kept, others = ranked[:top], len(ranked[top:])
    row = np.full(len(distinct), len(kept), np.int64)
    row[kept] = np.arange(len(kept))
    names = list(distinct)
    cells = [names[place] for place in kept.tolist()]
    if others:
        cells.append((count(others, "other"), *("" for _ in keys[0][1:])))
    return Ranking(tuple(cells), row[merged])
