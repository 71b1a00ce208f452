"""Distinct rows of several integer columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd


def group_rows(columns: Sequence[npt.NDArray[Any]], rows: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Number the distinct combinations of values.

    Args:
        columns: shape (rows,) each, integers.
        rows: their length.

    Returns:
        Shape (rows,), the number of each row's combination; and one row of each combination.
    """
    if not rows or not columns:
        return np.zeros(rows, np.intp), np.zeros(min(rows, 1), np.intp)
    # Sorting rows of eleven columns would take longer than reading them; a hash takes a few passes.
    mixed = np.zeros(rows, np.uint64)
    for column in columns:
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    codes, uniques = pd.factorize(mixed)
    examples = np.empty(len(uniques), np.intp)
    examples[codes[::-1]] = np.arange(rows - 1, -1, -1)
    if all((column == column[examples][codes]).all() for column in columns):
        return codes, examples
    _, examples, codes = np.unique(np.column_stack(columns), axis=0, return_index=True, return_inverse=True)
    return codes.ravel(), examples
