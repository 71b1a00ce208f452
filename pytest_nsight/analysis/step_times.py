"""How long the steps of a program take: the first, the median, the 95th percentile and the slowest one. Pure.

A mean hides what these show: steps that compile, load or allocate first, and single ones that wait.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.chosen_work import ChosenWork
from pytest_nsight.analysis.range_mix import FEWEST_REPETITIONS
from pytest_nsight.analysis.selection import find_steps
from pytest_nsight.model.trace import Flags, Ints

_LONGER = 1.5
"""Times the median from which on a step at the beginning is one of warm-up."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """One step.

    Attributes:
        which: "first", "median", "95 %" or "slowest".
        number: its place among the steps of its process, from 1.
        process: that runs it.
        start_ns: when it begins, after the first step of all processes.
        length_ns: from its start on the host to the end of its last launch.
        next_ns: from its start to that of the process's next step; None for the last one.
        host_ns: length of the range on the host.
        kernel_ns: kernels, graphs and operators that it launches.
        copy_ns: copies and sets that it launches.
        sync_ns: host time in calls that wait.
    """

    which: str
    number: int
    process: int
    start_ns: int
    length_ns: int
    next_ns: int | None
    host_ns: int
    kernel_ns: int
    copy_ns: int
    sync_ns: int


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The steps of a trace.

    Attributes:
        label: what their ranges are called, "" where nothing repeats.
        count: how many there are, in all processes.
        warm_up: how many of them are at the beginning of their process and longer than 1.5 times the median.
        warm_up_share: of the length of all steps.
        steps: the first, the median, that of the 95th percentile, and the slowest one.
    """

    label: str = ""
    count: int = 0
    warm_up: int = 0
    warm_up_share: float = 0.0
    steps: tuple[StepTime, ...] = ()


def measure_steps(chosen: ChosenWork) -> StepTimes:
    """The steps, where at least five ranges look like one; percentiles are those of the nearest rank."""
    trace, table = chosen.trace, chosen.table
    position = find_steps(trace, table, is_chosen=chosen.is_part)
    if len(position) < FEWEST_REPETITIONS:
        return StepTimes()
    ranges = trace.ranges.take(table.rows[position])
    order = np.lexsort((ranges.start_ns, ranges.process))
    position, ranges = position[order], ranges.take(order)
    is_first = np.diff(ranges.process, prepend=ranges.process[0] - 1) != 0
    within = np.arange(len(position)) - np.maximum.accumulate(np.where(is_first, np.arange(len(position)), 0))
    length_ns = table.costs.last_ns[position] - ranges.start_ns
    by_length = np.argsort(length_ns, kind="stable")
    median_ns = int(length_ns[by_length[(len(position) - 1) // 2]])
    chosen_steps = {
        "first": int(ranges.start_ns.argmin()),
        "median": int(by_length[(len(position) - 1) // 2]),
        "95 %": int(by_length[-(-95 * len(position) // 100) - 1]),
        "slowest": int(by_length[-1]),
    }
    warm = _flag_warm_up(within, length_ns > _LONGER * median_ns)
    first_ns = int(ranges.start_ns.min())
    costs = table.costs

    def describe(which: str, at: int) -> StepTime:
        has_next = at + 1 < len(position) and not is_first[at + 1]
        start_ns, row = int(ranges.start_ns[at]), position[at]
        return StepTime(
            which=which,
            number=int(within[at]) + 1,
            process=int(ranges.process[at]),
            start_ns=start_ns - first_ns,
            length_ns=int(length_ns[at]),
            next_ns=int(ranges.start_ns[at + 1]) - start_ns if has_next else None,
            host_ns=int(ranges.end_ns[at]) - start_ns,
            kernel_ns=int(costs.kernel_ns[row]),
            copy_ns=int(costs.copy_ns[row]),
            sync_ns=int(costs.sync_ns[row]),
        )

    total_ns = int(length_ns.sum())
    return StepTimes(
        label=table.labels[table.label[position[0]]],
        count=len(position),
        warm_up=int(warm.sum()),
        warm_up_share=int(length_ns[warm].sum()) / total_ns if total_ns else 0.0,
        steps=tuple(describe(which, at) for which, at in chosen_steps.items()),
    )


def _flag_warm_up(within: Ints, is_long: Flags) -> Flags:
    """The long steps before the first one of their process that is not long.

    Args:
        within: shape (steps,), place of each in its process, from 0; those of a process stand together, in order.
        is_long: shape (steps,).
    """
    starts = np.flatnonzero(within == 0)
    short = np.where(is_long, len(within), np.arange(len(within)))
    first_short = np.minimum.reduceat(short, starts)
    flags: Flags = np.arange(len(within)) < np.repeat(first_short, np.diff(np.append(starts, len(within))))
    return flags
