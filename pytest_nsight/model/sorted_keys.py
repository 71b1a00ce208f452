"""Pairs of integers as single integers with the same order, for sorts and binary searches. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_nsight.model.trace import Ints

_MOST = 2**62
"""Sums and differences of keys below this limit do not overflow."""


def join_keys(left: tuple[Ints, Ints], right: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Pairs (major, minor) of two tables as single integers.

    Args:
        left: major and minor numbers of the first table, shape (rows,) each.
        right: those of the second table.

    Returns:
        One integer for each pair of each table. Two integers compare as their pairs do.
    """
    if _is_one_value(left[0], right[0]):
        # Most traces hold one process. An array of its number would fill memory for nothing.
        return left[1], right[1]
    left_major, right_major, majors = _rank(left[0], right[0])
    left_minor, right_minor = left[1], right[1]
    extremes = [bound for minor in (left_minor, right_minor) if len(minor) for bound in (minor.min(), minor.max())]
    lowest, span = int(min(extremes)), int(max(extremes)) - int(min(extremes)) + 1
    if majors * span >= _MOST:
        left_minor, right_minor, span = _rank(left_minor, right_minor)
        lowest = 0
    return left_major * span + (left_minor - lowest), right_major * span + (right_minor - lowest)


def distinct(values: npt.NDArray[np.integer[Any]]) -> Ints:
    """The distinct values, sorted, without a sort where they lie close together.

    Args:
        values: shape (rows,).
    """
    if _are_close(values):
        lowest = values.min()
        return np.flatnonzero(np.bincount(values - lowest)) + int(lowest)
    # numpy.unique does the same, but imports masked arrays: a twentieth of the time of `show` on a small file.
    ordered = np.sort(values).astype(np.int64, copy=False)
    is_first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def rank_values(values: npt.NDArray[np.integer[Any]]) -> tuple[Ints, Ints]:
    """The distinct values, sorted, and for each value its rank among them, as `numpy.unique` gives them.

    Numbers of names, shapes and devices lie close together: counting them takes a hundredth of sorting them.

    Args:
        values: shape (rows,).
    """
    if not _are_close(values):
        sorted_values, ranks = np.unique(values, return_inverse=True)
        return sorted_values.astype(np.int64, copy=False), ranks.astype(np.int64, copy=False)
    lowest = values.min()
    places = values - lowest
    is_used = np.bincount(places) > 0
    return np.flatnonzero(is_used) + int(lowest), (np.cumsum(is_used) - 1)[places]


def _are_close(values: npt.NDArray[np.integer[Any]]) -> bool:
    """Whether a table of all numbers between the values is no longer than they are themselves."""
    return bool(len(values)) and int(values.max()) - int(values.min()) < len(values)


def rank_groups(major: Ints, minor: Ints) -> tuple[Ints, int]:
    """The rank of each pair among the distinct pairs, and the number of distinct pairs.

    Args:
        major: shape (rows,).
        minor: shape (rows,).
    """
    keys, _ = join_keys((major, minor), (major[:0], minor[:0]))
    if _is_one_value(major) and _is_one_value(minor):
        return np.zeros(len(major), np.int64), min(len(major), 1)
    values, ranks = rank_values(keys)
    return ranks, len(values)


def _is_one_value(*columns: Ints) -> bool:
    """Whether all values of all columns are the same."""
    filled = [column for column in columns if len(column)]
    return all(bool((column == filled[0][0]).all()) for column in filled)


def _rank(left: Ints, right: Ints) -> tuple[Ints, Ints, int]:
    """The values of two arrays as their ranks among all values, and the number of ranks."""
    both = np.concatenate([left, right]).astype(np.int64, copy=False)
    values, ranks = np.unique(both, return_inverse=True)
    return ranks[: len(left)], ranks[len(left) :], len(values)
