"""Sums over ranges: what a round cost, and what the parts of replayed graphs cost in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pytest_nsight.model.values import METRICS
from pytest_nsight.trace.graph_captures import Captured

_Use = tuple[int, int, int]
"""Launches, their total time in ns, and the start of the first, in ns."""


_Columns = pd.DataFrame | Mapping[str, NDArray[Any]]


class RangeSums(NamedTuple):
    """Sums over some ranges.

    Attributes:
        times_ns: metric -> duration. A part of a replayed graph has no times on the host.
        copied_bytes: by copies and sets.
        shapes: index of a shape -> its uses.
    """

    times_ns: Mapping[str, int]
    copied_bytes: int
    shapes: Mapping[int, _Use]

    def join(self, other: RangeSums) -> RangeSums:
        """Both together."""
        times_ns = dict(self.times_ns)
        for metric, duration_ns in other.times_ns.items():
            times_ns[metric] = times_ns.get(metric, 0) + duration_ns
        shapes = _add_up([*self.shapes.items(), *other.shapes.items()])
        return RangeSums(times_ns, self.copied_bytes + other.copied_bytes, shapes)


class RangeSumTable:
    """Sums by range, and their totals over the ranges of a round."""

    def __init__(self, sums: _Columns, kernels: _Columns) -> None:
        """Reads both tables of a Measured or a Captured."""
        self._columns = {name: np.asarray(sums[name], np.int64) for name in ("start_ns", "end_ns", "copied_bytes")}
        self._times_ns = {
            metric: np.asarray(sums[f"{metric}_ns"], np.int64) for metric in METRICS if f"{metric}_ns" in sums
        }
        columns = ("range", "shape", "count", "total_ns", "first_start_ns")
        self._uses: dict[int, list[tuple[int, _Use]]] = {}
        for row, shape, *use in zip(*(kernels[column].tolist() for column in columns), strict=True):
            self._uses.setdefault(row, []).append((shape, (use[0], use[1], use[2])))

    def add_up(self, rows: Sequence[int]) -> RangeSums:
        """The sums over some ranges; a range inside another of them is not added again."""
        kept = self._outermost(rows)
        times_ns = {metric: int(column[kept].sum()) for metric, column in self._times_ns.items()}
        uses = [use for row in kept for use in self._uses.get(row, ())]
        return RangeSums(times_ns, int(self._columns["copied_bytes"][kept].sum()), _add_up(uses))

    def _outermost(self, rows: Sequence[int]) -> list[int]:
        start_ns, end_ns = self._columns["start_ns"], self._columns["end_ns"]
        kept: list[int] = []
        for row in sorted(rows, key=lambda row: (start_ns[row], -end_ns[row])):
            if not kept or end_ns[row] > end_ns[kept[-1]]:
                kept.append(row)
        return kept


def sum_captured_parts(captured: Captured, rounds: pd.DataFrame) -> dict[str, dict[int, RangeSums]]:
    """What the parts of replayed graphs cost in each round that replayed them.

    Args:
        captured: of the whole trace.
        rounds: rows of Measured.ranges, one a round, of one process; the index is the round's id.

    Returns:
        Name of the range of the capture -> id of the round -> sums.
    """
    parts = pd.DataFrame(captured.parts)
    ordered = rounds.sort_values("start_ns")
    if parts.empty or ordered.empty:
        return {}
    at = np.searchsorted(ordered["start_ns"].to_numpy(), parts["called_ns"].to_numpy(), side="right") - 1
    is_inside = (at >= 0) & (parts["called_ns"].to_numpy() < ordered["end_ns"].to_numpy()[at])
    is_inside &= parts["process"].to_numpy() == ordered["process"].to_numpy()[at]
    found = parts.assign(round=ordered.index.to_numpy()[at])[is_inside]
    table = RangeSumTable(captured.parts, captured.kernels)
    sums: dict[str, dict[int, RangeSums]] = {}
    # Within one replay a range may contain another of its name; two replays run the same ranges again.
    for (name, round_id, _), group in found.groupby(["name", "round", "called_ns"], sort=False):
        one, by_round = table.add_up(group.index.tolist()), sums.setdefault(name, {})
        by_round[round_id] = by_round[round_id].join(one) if round_id in by_round else one
    return sums


def _add_up(uses: Iterable[tuple[int, _Use]]) -> dict[int, _Use]:
    found: dict[int, _Use] = {}
    for shape, (count, total_ns, first_ns) in uses:
        before = found.get(shape, (0, 0, first_ns))
        found[shape] = (before[0] + count, before[1] + total_ns, min(before[2], first_ns))
    return found
