"""What a picture is made of: the launches of a trace placed in its ranges and on its timeline, and those chosen.

Each table of a picture, and each bottleneck in it, is about some of this. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.categories import COMMUNICATION, CategoryRule, categorise
from pytest_nsight.analysis.host_waits import flag_waits
from pytest_nsight.analysis.intervals import TimeSet
from pytest_nsight.analysis.kernel_mix import KernelTimes
from pytest_nsight.analysis.limit_classes import RecordedProgram
from pytest_nsight.analysis.range_tree import RangeTable
from pytest_nsight.analysis.selection import Selection, choose_ranges, select
from pytest_nsight.analysis.timeline import Timeline, TimeState, build_timeline
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.unattributed import UnattributedLaunches, find_unattributed


@dataclass(frozen=True, slots=True)
class ChosenWork:
    """The work of a trace, and which of it the user has chosen.

    Attributes:
        trace: that it is about.
        details: of its launches.
        categories: of its shapes.
        waits: which calls wait, shape (calls,).
        timeline: of its devices.
        program: that was recorded.
        times: of its kernels, by category.
        table: the chosen ranges, all where none was chosen.
        selection: what they hold.
        unattributed: launches that belong to none of these ranges.
        is_part: whether the user chose ranges.
    """

    trace: Trace
    details: LaunchDetails
    categories: Sequence[str]
    waits: Flags
    timeline: Timeline
    program: RecordedProgram
    times: KernelTimes
    table: RangeTable
    selection: Selection
    unattributed: tuple[UnattributedLaunches, ...]
    is_part: bool

    @classmethod
    def of(cls, trace: Trace, name: str, domain: str | None, rules: Sequence[CategoryRule]) -> ChosenWork:
        """The work in the ranges with a name and a domain, as `selection.choose_ranges` takes them.

        Args:
            trace: any trace.
            name: "" for all.
            domain: None for all.
            rules: the user's category rules.

        Raises:
            UsageError: there is no such range.
            TraceError: the recording's times are too far apart to be added up.
        """
        details = LaunchDetails.of(trace)
        categories = categorise(trace.shapes, rules)
        waits = flag_waits(trace, details)
        timeline = build_timeline(trace, details, waits, _flag_communication(trace, details, categories))
        table = RangeTable.of(trace, details, waits, choose_ranges(trace, name, domain))
        is_part = bool(name) or domain is not None
        return cls(
            trace=trace,
            details=details,
            categories=categories,
            waits=waits,
            timeline=timeline,
            program=RecordedProgram.of(trace, details),
            times=KernelTimes.of(trace, details, timeline, categories),
            table=table,
            selection=select(trace, timeline, table, is_chosen=is_part),
            unattributed=find_unattributed(trace, ~table.costs.is_inside, details.is_placed, details.duration_ns),
            is_part=is_part,
        )

    def measure_states(self, window: TimeSet, launches: Ints) -> Mapping[TimeState, int]:
        """How long the devices are in each state.

        Args:
            window: when.
            launches: rows of those that count as own; the work of all others is a state of its own.
        """
        return self.timeline.measure(window, self.timeline.find_own(self.trace, self.details, launches))


def _flag_communication(trace: Trace, details: LaunchDetails, categories: Sequence[str]) -> Flags:
    """Which launches are kernels that communicate, shape (launches,)."""
    of_shape = np.array([category == COMMUNICATION for category in categories] or [False], np.bool_)
    flags: Flags = details.is_compute & of_shape[trace.launches.shape]
    return flags
