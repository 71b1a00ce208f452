"""What one round spent on one subject: in its own ranges, and in those of a replayed graph's capture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from pytest_nsight.model import METRICS, Shape, ShapeSpread
from pytest_nsight.trace.captures import Captured

_Use = tuple[int, int, int]
"""Launches, their total time in ns, and the start of the first, in ns."""


class Piece(NamedTuple):
    """Sums over some ranges.

    Attributes:
        times_ns: metric -> duration; a part of a replayed graph has none on the host, which sees the replay whole.
        copied_bytes: by copies and sets.
        shapes: index of a shape -> its uses.
    """

    times_ns: Mapping[str, int]
    copied_bytes: int
    shapes: Mapping[int, _Use]

    def join(self, other: Piece) -> Piece:
        """Both together."""
        times_ns = dict(self.times_ns)
        for metric, duration_ns in other.times_ns.items():
            times_ns[metric] = times_ns.get(metric, 0) + duration_ns
        shapes = _add_up([*self.shapes.items(), *other.shapes.items()])
        return Piece(times_ns, self.copied_bytes + other.copied_bytes, shapes)


class PieceTable:
    """Sums of ranges, to be added up by round."""

    def __init__(self, sums: pd.DataFrame, kernels: pd.DataFrame) -> None:
        """Takes both tables of a Measured or a Captured."""
        self._columns = {name: sums[name].to_numpy(np.int64) for name in ("start_ns", "end_ns", "copied_bytes")}
        self._times_ns = {
            metric: sums[f"{metric}_ns"].to_numpy(np.int64) for metric in METRICS if f"{metric}_ns" in sums
        }
        columns = ("range", "shape", "count", "total_ns", "first_start_ns")
        self._uses: dict[int, list[tuple[int, _Use]]] = {}
        for row, shape, *use in zip(*(kernels[column].tolist() for column in columns), strict=True):
            self._uses.setdefault(row, []).append((shape, (use[0], use[1], use[2])))

    def add_up(self, rows: Sequence[int]) -> Piece:
        """The sums of ranges; one inside another of them is part of that one already."""
        kept = self._outermost(rows)
        times_ns = {metric: int(column[kept].sum()) for metric, column in self._times_ns.items()}
        uses = [use for row in kept for use in self._uses.get(row, ())]
        return Piece(times_ns, int(self._columns["copied_bytes"][kept].sum()), _add_up(uses))

    def _outermost(self, rows: Sequence[int]) -> list[int]:
        start_ns, end_ns = self._columns["start_ns"], self._columns["end_ns"]
        kept: list[int] = []
        for row in sorted(rows, key=lambda row: (start_ns[row], -end_ns[row])):
            if not kept or end_ns[row] > end_ns[kept[-1]]:
                kept.append(row)
        return kept


def captured_pieces(captured: Captured, rounds: pd.DataFrame) -> dict[str, dict[int, Piece]]:
    """Parts of replayed graphs, by the rounds that replayed them.

    Args:
        captured: of the whole trace.
        rounds: rows of Measured.ranges, one a round, of one process; indexed by the round's id.

    Returns:
        Name of the range of the capture -> id of the round -> what it took there.
    """
    parts = captured.parts
    ordered = rounds.sort_values("start_ns")
    if parts.empty or ordered.empty:
        return {}
    at = np.searchsorted(ordered["start_ns"].to_numpy(), parts["called_ns"].to_numpy(), side="right") - 1
    is_inside = (at >= 0) & (parts["called_ns"].to_numpy() < ordered["end_ns"].to_numpy()[at])
    is_inside &= parts["process"].to_numpy() == ordered["process"].to_numpy()[at]
    found = parts.assign(round=ordered.index.to_numpy()[at])[is_inside]
    table = PieceTable(parts, captured.kernels)
    pieces: dict[str, dict[int, Piece]] = {}
    # One name may be nested in itself, but only within a replay: each replay runs the same ranges again.
    for (name, round_id, _), group in found.groupby(["name", "round", "called_ns"], sort=False):
        piece, by_round = table.add_up(group.index.tolist()), pieces.setdefault(name, {})
        by_round[round_id] = by_round[round_id].join(piece) if round_id in by_round else piece
    return pieces


def find_varying(rounds: Sequence[Mapping[int, int]], names: Sequence[Shape]) -> tuple[ShapeSpread, ...]:
    """Which shapes are not launched equally often in all rounds.

    Args:
        rounds: for each round, index of a shape -> how often it was launched.
        names: the shapes.
    """
    spreads = []
    for shape in dict.fromkeys(shape for one in rounds for shape in one):
        counts = [one.get(shape, 0) for one in rounds]
        if min(counts) < max(counts):
            spreads.append(ShapeSpread(names[shape], min(counts), max(counts)))
    return tuple(spreads)


def _add_up(uses: Iterable[tuple[int, _Use]]) -> dict[int, _Use]:
    found: dict[int, _Use] = {}
    for shape, (count, total_ns, first_ns) in uses:
        before = found.get(shape, (0, 0, first_ns))
        found[shape] = (before[0] + count, before[1] + total_ns, min(before[2], first_ns))
    return found
