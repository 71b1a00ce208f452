"""Idle times of a device between two launches of one range: no kernel, copy or set runs, from any range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from pytest_nsight.model.trace import Ints, Trace
from pytest_nsight.trace.attribution import Membership, attribute
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.measures import split_pairs

NO_RANGE = -1
_NO_LAUNCH = -1


def find_gaps(trace: Trace) -> pd.DataFrame:
    """Every idle time between two launches of one range.

    Args:
        trace: any trace. One without ranges counts as a single range.

    Returns:
        One row a gap, in order of start: "range" (row of ``trace.ranges``, the shortest that launched what ran
        before and what ran after; NO_RANGE in a trace without any), "before" and "after" (rows of
        ``trace.launches``), "start_ns", "gap_ns".
    """
    before, gap_ns = _measure_idle(trace)
    after = np.flatnonzero(gap_ns > 0)
    if len(trace.ranges):
        found = pd.concat([*_pair_with_ranges(trace, before, gap_ns)], ignore_index=True)
        # Ranges enclose one another: the innermost one says most.
        found = found.sort_values(["wall_ns", "range"], kind="stable").drop_duplicates("after")
        after, where = found["after"].to_numpy(np.int64), found["range"].to_numpy(np.int64)
    else:
        where = np.full(len(after), NO_RANGE, np.int64)
    table: pd.DataFrame = pd.DataFrame(
        {
            "range": where,
            "before": before[after],
            "after": after,
            "start_ns": trace.launches.start_ns[after] - gap_ns[after],
            "gap_ns": gap_ns[after],
        }
    )
    ordered: pd.DataFrame = table.sort_values("start_ns", kind="stable", ignore_index=True)
    return ordered


def _measure_idle(trace: Trace) -> tuple[Ints, Ints]:
    """For each launch, which one ended last before it started, and how long its device was idle since."""
    launches = trace.launches
    before = np.full(len(launches), _NO_LAUNCH, np.int64)
    gap_ns = np.zeros(len(launches), np.int64)
    order = np.lexsort((launches.start_ns, launches.device, launches.process))
    process, device = launches.process[order], launches.device[order]
    edges = np.flatnonzero((np.diff(process) != 0) | (np.diff(device) != 0)) + 1
    for rows in np.split(order, edges):
        start_ns, end_ns = launches.start_ns[rows], launches.end_ns[rows]
        last_ns = np.maximum.accumulate(end_ns)
        # The latest launch that reached the running maximum.
        reached = np.maximum.accumulate(np.where(end_ns == last_ns, np.arange(len(rows)), 0))
        before[rows[1:]] = rows[reached[:-1]]
        gap_ns[rows[1:]] = np.maximum(start_ns[1:] - last_ns[:-1], 0)
    return before, gap_ns


def _pair_with_ranges(trace: Trace, before: Ints, gap_ns: Ints) -> Iterator[pd.DataFrame]:
    """The gaps, by the launch after them, with every range that made this launch and the one before."""
    details, ranges = LaunchDetails.of(trace), trace.ranges
    launched = np.flatnonzero(details.is_placed)
    rows = np.arange(len(ranges))
    members = attribute(trace, rows, trace.launches.process[launched], *details.origin(trace, launched))
    for first, last in split_pairs(members.counts):
        where, after = _find_both(members, launched, before, gap_ns, (first, last))
        where += first
        wall_ns = ranges.end_ns[where] - ranges.start_ns[where]
        yield pd.DataFrame({"range": where, "after": after, "wall_ns": wall_ns})


def _find_both(
    members: Membership, launched: Ints, before: Ints, gap_ns: Ints, span: tuple[int, int]
) -> tuple[Ints, Ints]:
    """Pairs of a range and a launch after a gap, for which the range holds the launch before it as well."""
    where, event = members.pairs(*span)
    row = launched[event]
    size = len(before) + 1
    candidates = np.flatnonzero(gap_ns[row] > 0)
    where_after, after = where[candidates], row[candidates]
    is_both = pd.Index(where_after * size + before[after]).isin(where * size + row)
    return where_after[is_both], after[is_both]
