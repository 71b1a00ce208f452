"""What limits the ranges that take most of the devices' time, label by label. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.bottleneck import Bottleneck, classify
from pytest_nsight.analysis.chosen_work import ChosenWork
from pytest_nsight.analysis.host_waits import share_of_waits
from pytest_nsight.analysis.range_mix import find_leading_labels, find_outermost
from pytest_nsight.analysis.selection import find_window

_MOST_LIMITED = 8
"""Labels whose bottleneck is determined."""


@dataclass(frozen=True, slots=True)
class RangeLimit:
    """What limits the ranges with one label.

    Attributes:
        label: what the ranges are called.
        bottleneck: what limits them.
    """

    label: str
    bottleneck: Bottleneck


def find_limits(chosen: ChosenWork) -> tuple[RangeLimit, ...]:
    """The bottlenecks of the leading labels with the most device time."""
    trace, table = chosen.trace, chosen.table
    leads = find_leading_labels(table, np.bincount(table.label, minlength=len(table.labels)))
    is_leading = find_outermost(table) & leads[table.label]
    device_ns = np.where(is_leading, table.costs.kernel_ns + table.costs.copy_ns, 0)
    totals = np.bincount(table.label, device_ns, len(table.labels)) if len(table.rows) else np.empty(0)
    limits = []
    for label in np.argsort(-totals, kind="stable")[:_MOST_LIMITED].tolist():
        if not totals[label]:
            break
        positions = np.flatnonzero(is_leading & (table.label == label))
        rows = table.costs.placed[table.costs.members.among(positions)]
        states = chosen.measure_states(find_window(trace, chosen.timeline, table, positions), rows)
        waiting = share_of_waits(trace, table, positions)
        found = classify(states, chosen.times.mix(rows), chosen.program, waiting)
        if found is not None:
            limits.append(RangeLimit(table.labels[label], found))
    return tuple(limits)
