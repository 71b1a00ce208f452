"""The heaviest rows of a table, and one row for all that is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_nsight.trace.model import Ints
from pytest_nsight.units import count

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
    distinct = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    merged = np.array([distinct[key] for key in keys], np.int64)[codes]
    totals = np.bincount(merged, weights, minlength=len(distinct))
    used = np.flatnonzero(np.bincount(merged, minlength=len(distinct)))
    ranked = used[np.argsort(-totals[used], kind="stable")]
    kept, others = ranked[:top], len(ranked[top:])
    row = np.full(len(distinct), len(kept), np.int64)
    row[kept] = np.arange(len(kept))
    names = list(distinct)
    cells = [names[number] for number in kept.tolist()]
    if others:
        cells.append((count(others, "other"), *("" for _ in keys[0][1:])))
    return Ranking(tuple(cells), row[merged])
