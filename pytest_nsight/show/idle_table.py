"""The table of idle times of the device."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pytest_nsight.model.trace import Ints
from pytest_nsight.model.units import count, duration
from pytest_nsight.report.table import Column, shorten
from pytest_nsight.show.layout import ELLIPSIS, Cells, Section, printable, rank
from pytest_nsight.show.range_table import Labels
from pytest_nsight.show.view import View
from pytest_nsight.trace.idle_gaps import NO_RANGE, find_gaps

_RANGE_WIDTH = 18
_OTHER_COLUMNS = 49
"""Width of all columns but the names of the launches, with some to spare."""


def tabulate_gaps(view: View, labels: Labels, top: int, width: int) -> Section | None:
    """Idle times by range and by the launches around them, those that last longest in total first.

    Args:
        view: what to show.
        labels: what its ranges are called.
        top: how many rows there are beside that of the others.
        width: the most characters that a line may have.

    Returns:
        None if there are none.
    """
    gaps = find_gaps(view.trace)
    if gaps.empty:
        return None
    keys, codes = _number_places(view, labels, gaps)
    time_ns = gaps["gap_ns"].to_numpy(np.int64)
    ranking = rank(keys, codes, time_ns, top)
    grouped = pd.Series(time_ns).groupby(ranking.row)
    room = max((width - _OTHER_COLUMNS) // 2, 10)
    inside = " inside ranges" if len(view.trace.ranges) else ""
    return Section(
        f"Idle device{inside}: {count(len(gaps), 'gap')}, {duration(int(time_ns.sum()))}",
        Column("after -> before", [_describe(cells, room) for cells in ranking.cells], is_number=False),
        [
            [
                Column(
                    "range", [shorten(cells[2], _RANGE_WIDTH, ELLIPSIS) for cells in ranking.cells], is_number=False
                ),
                Column("count", [f"{number:,}" for number in grouped.size()]),
                Column("total", [duration(ns) for ns in grouped.sum()]),
                Column("longest", [duration(ns) for ns in grouped.max()]),
            ]
        ],
    )


def _number_places(view: View, labels: Labels, gaps: pd.DataFrame) -> tuple[list[Cells], Ints]:
    """The distinct places of gaps, as the launches around them and the range, and the number of each gap's."""
    trace, shape = view.trace, view.trace.launches.shape
    row = gaps["range"].to_numpy(np.int64)
    is_inside = row != NO_RANGE
    domain, name = np.full(len(row), NO_RANGE), np.full(len(row), NO_RANGE)
    domain[is_inside], name[is_inside] = trace.ranges.domain[row[is_inside]], trace.ranges.name[row[is_inside]]
    places = pd.DataFrame(
        {
            "before": shape[gaps["before"].to_numpy(np.int64)],
            "after": shape[gaps["after"].to_numpy(np.int64)],
            "domain": domain,
            "name": name,
        }
    )
    codes: Ints = places.groupby([*places.columns], sort=False).ngroup().to_numpy(np.int64)
    names = [_shorten_name(printable(each.name)) for each in trace.shapes]
    keys: list[Cells] = [
        (names[before], names[after], labels.get((place, number), "-"))
        for before, after, place, number in places.drop_duplicates().itertuples(index=False)
    ]
    return keys, codes


def _shorten_name(name: str) -> str:
    """Only what a generic kernel computes, where the name tells: MulFunctor."""
    _, _, operation = name.partition("(")
    return operation.removesuffix(")") or name


def _describe(cells: Cells, room: int) -> str:
    before, after, _ = cells
    if not after:
        return before
    return " -> ".join(shorten(name, room, ELLIPSIS) for name in (before, after))
