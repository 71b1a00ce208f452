"""Ranges with declared work: latency, throughput and rates, such as tokens a second or TFLOP/s. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.range_mix import find_outermost
from pytest_nsight.analysis.range_tree import RangeTable
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.trace import Trace
from pytest_nsight.model.units import name_some

_FORM = re.compile(r"(?P<name>.+)=(?P<amount>\d+(\.\d*)?([eE][+-]?\d+)?)\s*(?P<unit>[A-Za-z]+)")
_MOST = 1e30
"""Rates of larger amounts would leave the range of floating-point numbers."""


@dataclass(frozen=True, slots=True)
class DeclaredRangeWork:
    """What each range of a name does.

    Attributes:
        name: of the ranges, without a number that only counts.
        amount: of one range.
        unit: what is counted: "tokens", "FLOP", "B".

    Raises:
        UsageError: the amount is not above 0 and at most 1e30.
    """

    name: str
    amount: float
    unit: str

    def __post_init__(self) -> None:
        if not 0 < self.amount <= _MOST:
            raise UsageError(
                f"the work of ranges {self.name!r} is {self.amount:g} {self.unit}; give an amount above 0 and at "
                "most 1e30"
            )

    @classmethod
    def parse(cls, text: str) -> DeclaredRangeWork:
        """The declaration in "attention_scores=8.05e8 FLOP".

        Raises:
            UsageError: it has another form, or the amount is not above 0 and at most 1e30.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None or not 0 < float(match["amount"]) <= _MOST:
            raise UsageError(
                f"--work is {text!r}; give RANGE=AMOUNT UNIT for one range, the amount above 0 and at most 1e30, "
                "such as infer=512tokens or attention_scores=8.05e8FLOP"
            )
        return cls(match["name"], float(match["amount"]), match["unit"])


@dataclass(frozen=True, slots=True)
class RangeWork:
    """The ranges of one name with their work.

    Attributes:
        label: what the ranges are called.
        count: number of ranges.
        amount: work of one range.
        unit: of the work.
        latency_ns: median time from the start of a range on the host to the end of its last launch.
        latency_95_ns: 95th percentile of that.
        kernel_ns: median kernel time of a range.
        per_s: work a second from end to end: the work of all ranges over the time from the first start to the last
            end, pauses between them included.
        time_share: of the kernel time of all ranges with work of this unit.
        work_share: of their work.
    """

    label: str
    count: int
    amount: float
    unit: str
    latency_ns: float
    latency_95_ns: float
    kernel_ns: float
    per_s: float
    time_share: float
    work_share: float

    @property
    def kernel_per_s(self) -> float | None:
        """Work a second while its kernels run; None where it has none."""
        return 1e9 * self.amount / self.kernel_ns if self.kernel_ns else None


def measure_work(trace: Trace, table: RangeTable, declared: Sequence[DeclaredRangeWork]) -> tuple[RangeWork, ...]:
    """Times and rates of the ranges whose work is declared, in that order.

    Args:
        trace: the trace.
        table: the ranges.
        declared: the work of each.

    Raises:
        UsageError: no range has that name.
    """
    outer = find_outermost(table)
    chosen = {work: _find_ranges(table, outer, work.name) for work in declared}
    kernel_ns, amounts = dict[str, int](), dict[str, float]()
    for work, positions in chosen.items():
        kernel_ns[work.unit] = kernel_ns.get(work.unit, 0) + int(table.costs.kernel_ns[positions].sum())
        amounts[work.unit] = amounts.get(work.unit, 0.0) + work.amount * len(positions)
    found = []
    for work, positions in chosen.items():
        start_ns, last_ns = trace.ranges.start_ns[table.rows[positions]], table.costs.last_ns[positions]
        latency_ns = last_ns - start_ns
        own_ns = table.costs.kernel_ns[positions]
        whole_ns = max(int(last_ns.max()) - int(start_ns.min()), 1)
        found.append(
            RangeWork(
                label=table.labels[int(table.label[positions[0]])],
                count=len(positions),
                amount=work.amount,
                unit=work.unit,
                latency_ns=float(np.median(latency_ns)),
                latency_95_ns=float(np.percentile(latency_ns, 95)),
                kernel_ns=float(np.median(own_ns)),
                per_s=1e9 * work.amount * len(positions) / whole_ns,
                time_share=int(own_ns.sum()) / max(kernel_ns[work.unit], 1),
                work_share=work.amount * len(positions) / amounts[work.unit],
            )
        )
    return tuple(found)


def _find_ranges(
    table: RangeTable, outer: np.ndarray[tuple[int], np.dtype[np.bool_]], name: str
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Positions of the ranges of that name; "step" also means step#0, step#1 and so on."""
    fitting = [number for number, label in enumerate(table.labels) if label in (name, f"{name}#*", f"{name}*")]
    positions = np.flatnonzero(np.isin(table.label, fitting) & outer)
    if not len(positions):
        known = name_some(map(repr, table.labels), 8) or "none"
        raise UsageError(f"--work names ranges {name!r}, and there are none; the recording has {known}")
    return positions
