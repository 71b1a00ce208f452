"""Sets of time on numbered lines, such as the devices or threads of a trace: union, intersection, length. Pure.

All lines share one integer axis, one behind the other, so that each operation is one sort or one binary search over
all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.trace import Ints

_MOST = 2**62


@dataclass(frozen=True, slots=True)
class Axis:
    """Where each line begins on the common axis.

    Attributes:
        low_ns: the earliest instant of all lines.
        span_ns: length that a line takes on the axis.
        lines: number of lines.
    """

    low_ns: int
    span_ns: int
    lines: int

    @classmethod
    def over(cls, low_ns: int, high_ns: int, lines: int) -> Axis:
        """An axis for times from ``low_ns`` to ``high_ns`` on so many lines.

        Raises:
            TraceError: the times are too far apart to be added up.
        """
        span_ns = high_ns - low_ns + 2
        if span_ns * max(lines, 1) >= _MOST:
            raise TraceError(f"the recording spans {high_ns - low_ns} ns, more than its times can be; record again")
        return cls(low_ns, span_ns, lines)

    def place(self, line: Ints, time_ns: Ints) -> Ints:
        """Positions on the axis; a time outside the axis counts as its nearest end."""
        clipped = np.clip(time_ns - self.low_ns, 0, self.span_ns - 1)
        positions: Ints = line * self.span_ns + clipped
        return positions


@dataclass(frozen=True, slots=True)
class TimeSet:
    """Disjoint intervals in order.

    Attributes:
        axis: the axis of ``start`` and ``end``.
        start: shape (intervals,), positions on the axis.
        end: shape (intervals,), behind the start and not behind the next start.
    """

    axis: Axis
    start: Ints
    end: Ints

    @classmethod
    def union(cls, axis: Axis, line: Ints, start_ns: Ints, end_ns: Ints) -> TimeSet:
        """Every instant that any interval covers.

        Args:
            axis: the axis of the result.
            line: shape (intervals,), line of each.
            start_ns: shape (intervals,).
            end_ns: shape (intervals,); an interval that ends before it starts covers nothing.
        """
        start, end = axis.place(line, start_ns), axis.place(line, end_ns)
        kept = end > start
        return cls._merge(axis, start, end) if kept.all() else cls._merge(axis, start[kept], end[kept])

    @classmethod
    def _merge(cls, axis: Axis, start: Ints, end: Ints) -> TimeSet:
        if not len(start):
            return cls(axis, start, end)
        # Most tables are in order already.
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        reached = np.maximum.accumulate(end)
        is_first = np.concatenate([[True], start[1:] > reached[:-1]])
        if is_first.all():
            return cls(axis, start, end)
        first = np.flatnonzero(is_first)
        last = np.append(first[1:], len(start)) - 1
        return cls(axis, start[first], reached[last])

    @classmethod
    def merged(cls, one: TimeSet, other: TimeSet) -> TimeSet:
        """The instants of either of two sets of the same axis."""
        start, end = np.concatenate([one.start, other.start]), np.concatenate([one.end, other.end])
        return cls._merge(one.axis, start, end)

    @property
    def line(self) -> Ints:
        """Line of each interval."""
        lines: Ints = self.start // self.axis.span_ns
        return lines

    @property
    def start_ns(self) -> Ints:
        """Start of each interval, as a time."""
        return self.start - self.line * self.axis.span_ns + self.axis.low_ns

    @property
    def length_ns(self) -> Ints:
        """Length of each interval."""
        return self.end - self.start

    @property
    def total_ns(self) -> int:
        """Sum of all lengths."""
        return int(self.length_ns.sum())

    def by_line(self) -> Ints:
        """Sum of lengths by line, shape (lines,)."""
        totals = np.zeros(self.axis.lines, np.int64)
        np.add.at(totals, self.line, self.length_ns)
        return totals

    def covered(self, start: Ints, end: Ints) -> Ints:
        """How much of each interval of the axis the set covers.

        Args:
            start: shape (intervals,), positions on the axis.
            end: shape (intervals,).
        """
        if not len(self.start):
            return np.zeros(len(start), np.int64)
        running = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.length_ns)])
        return self._before(np.maximum(start, end), running) - self._before(start, running)

    def _before(self, position: Ints, running: Ints) -> Ints:
        """Length of the set before each position; `running` is the length before each interval, and of all."""
        at = np.searchsorted(self.start, position)
        overshoot = np.maximum(self.end[at - 1] - position, 0)
        before: Ints = running[at] - np.where(at > 0, overshoot, 0)
        return before

    def common(self, other: TimeSet) -> int:
        """Length of the intersection with another set of the same axis."""
        return int(other.covered(self.start, self.end).sum())

    def complement(self, whole: TimeSet) -> TimeSet:
        """The instants of ``whole``, one interval for each line in order, that are not in this set."""
        # Both sides are in order, and there are few lines: inserting takes a tenth of sorting.
        start = np.insert(self.end, np.searchsorted(self.end, whole.start), whole.start)
        end = np.insert(self.start, np.searchsorted(self.start, whole.end), whole.end)
        kept = end > start
        return TimeSet(self.axis, start[kept], end[kept])

    def minus(self, other: TimeSet) -> TimeSet:
        """The instants of this set that are not in the other set of the same axis."""
        if not len(self.start) or not len(other.start):
            return self
        # The gaps of the other set: before it, between its intervals, behind it.
        gap_start = np.concatenate([self.start[:1] - 1, other.end])
        gap_end = np.concatenate([other.start, self.end[-1:] + 1])
        gap_start[0] = min(int(gap_start[0]), int(gap_end[0]))
        gap_end[-1] = max(int(gap_end[-1]), int(gap_start[-1]))
        first = np.searchsorted(gap_end, self.start, side="right")
        pieces = np.maximum(np.searchsorted(gap_start, self.end) - first, 0)
        row = np.repeat(np.arange(len(self.start)), pieces)
        gap = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces) + first[row]
        start = np.maximum(self.start[row], gap_start[gap])
        end = np.minimum(self.end[row], gap_end[gap])
        kept = end > start
        return TimeSet._merge(self.axis, start[kept], end[kept])
