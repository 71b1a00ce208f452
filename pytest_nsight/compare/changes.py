"""What a comparison found: rows of the improvement table, and what makes the command fail."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from pytest_nsight.model.verdicts import VerdictKind


class Quantity(enum.Enum):
    """What a number in the table is."""

    TIME = "ns"
    COUNT = "count"
    SHARE = "ratio"
    RATE = "bytes/s"


class Group(enum.Enum):
    """The parts of the table, in order."""

    WHOLE = "whole"
    CASE = "case"
    STATE = "state"
    RANGE = "range"
    CATEGORY = "category"
    KERNEL = "kernel"


@dataclass(frozen=True, slots=True)
class Change:
    """One row of the improvement table.

    Attributes:
        group: the part of the table.
        name: of the metric, case, range, category or kernel.
        quantity: what the numbers are.
        before: of the baseline; None where it lacks the row.
        after: of the optimized recording; None where it lacks the row.
        ratio: after / before; None where one is missing or ``before`` is 0.
        low: lower end of the confidence interval of the ratio; None without repetitions.
        high: upper end.
        verdict: of a case, and of what a comparison of traces judges; "" for all else.
    """

    group: Group
    name: str
    quantity: Quantity
    before: float | None
    after: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str = ""

    @classmethod
    def of(cls, group: Group, name: str, quantity: Quantity, before: float | None, after: float | None) -> Change:
        """A row whose ratio follows from its numbers, without an interval."""
        ratio = after / before if before and after is not None else None
        return cls(group, name, quantity, before, after, ratio)

    def exchanged(self) -> Change:
        """The row of the comparison in the other direction, without a verdict."""
        row = Change.of(self.group, self.name, self.quantity, self.after, self.before)
        return replace(row, low=1 / self.high, high=1 / self.low) if self.low and self.high else row


@dataclass(frozen=True, slots=True)
class Changes:
    """Two recordings side by side.

    Attributes:
        before: what the baseline is called.
        after: what the optimized recording is called.
        rows: the table, group by group.
        regressions: one sentence for each verdict that makes the command fail.
        failing: the verdict of each of these sentences.
        notes: sentences for the reader.
        of_operators: whether both are traces of a CPU, whose operators stand for kernels.
    """

    before: str
    after: str
    rows: tuple[Change, ...]
    regressions: tuple[str, ...] = ()
    failing: tuple[VerdictKind, ...] = ()
    notes: tuple[str, ...] = ()
    of_operators: bool = False
