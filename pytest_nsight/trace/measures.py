"""What each range cost: times, launches, copies, and its kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import pandas as pd

from pytest_nsight.model.errors import TraceError
from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.trace import OWN_DOMAIN, Flags, Ints, Trace
from pytest_nsight.trace.attribution import Membership, attribute
from pytest_nsight.trace.descendants import find_workers_of_events
from pytest_nsight.trace.launch_table import MOST_PAIRS, LaunchDetails, measure_launches
from pytest_nsight.trace.launches_by_time import Rounds
from pytest_nsight.trace.lost_kernels import count_by_range
from pytest_nsight.trace.unattributed import (
    UnattributedLaunches,
    find_unattributed,
    note_lost_calls,
    note_placed_by_time,
)

PAIRS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Measured:
    """The ranges of a trace and what was launched inside them.

    Attributes:
        ranges: one row a range, in order of start. Times are int64 nanoseconds. "id" is the payload, -1
            where there is none; "name", "domain", "process", "thread", "is_open", "start_ns" and "end_ns"
            are those of the range. "device" is the device of the first launch, -1 without a launch. "board" is
            the board of the first launch, an index into the trace's devices, -1 where it is unknown. "is_split"
            is 1 where another launch of the range ran on another board, else 0. "kernel_ns" sums kernels, graphs
            and operators, "busy_ns" is the length of their union, "span_ns" is from the first start to the last
            end, "gap_ns" is span less busy. "copy_ns", "copied_bytes" and "copies" are of memory copies and sets.
            "sync_ns" is host time in synchronisation calls, "launch_ns" host time in the calls that launched
            kernels and graphs, "wall_ns" the length of the range. "launches" counts kernels, graphs and
            operators, "lost" calls that launched a kernel which is not in the recording.
        kernels: one row for each pair of a range and a shape launched in it, copies included, in order of
            range and first start: "range" (row of ``ranges``), "shape" (index into ``shapes``), "count",
            "total_ns", "first_start_ns".
        shapes: the distinct ways of launching, copies included.
        is_inside: shape (launches,), whether each launch of the trace belongs to a range.
        unattributed: launches that belong to no range, the longest in total first.
        notes: sentences for the user on launches that could not be attributed.
    """

    ranges: pd.DataFrame
    kernels: pd.DataFrame
    shapes: tuple[Shape, ...]
    is_inside: Flags
    unattributed: tuple[UnattributedLaunches, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())


def measure(
    trace: Trace,
    domain: str | None = OWN_DOMAIN,
    parents: Mapping[int, int] = MappingProxyType({}),
    rounds: Rounds | None = None,
) -> Measured:
    """The launches of a trace, attributed to its ranges and added up.

    Args:
        trace: any trace.
        domain: NVTX domain of the ranges in question, None for all.
        parents: process id -> process id of the worker in whose ranges its launches count, from
            descendants.find_parents.
        rounds: those of its workers, where they are known: launches without a call are found by them.

    Raises:
        TraceError: the ranges nest so deep that listing their launches would take hours.
    """
    rows = _choose_rows(trace, domain)
    details = LaunchDetails.of(trace, rounds)
    launched = np.flatnonzero(details.is_placed)
    process = find_workers_of_events(trace.launches.process[launched], parents)
    members = attribute(trace, rows, process, *details.origin(trace, launched))
    total = int(members.counts.sum())
    if total > MOST_PAIRS:
        raise TraceError(
            f"{len(rows)} ranges hold {total} launches in all, as they enclose one another; "
            "choose the ranges of one domain"
        )
    blocks = [
        _measure_block(trace, details, launched, members, first, last)
        for first, last in split_pairs(members.counts)
    ]
    table, kernels = (_concatenate(list(columns)) for columns in zip(*blocks, strict=True))
    table["sync_ns"] = _sum_synchronisation(trace, rows)
    table["lost"] = count_by_range(trace, details, rows, parents)
    covered = np.zeros(len(trace.launches), np.bool_)
    covered[launched] = members.covered
    unattributed = find_unattributed(trace, ~covered, details.is_placed, details.duration_ns)
    return Measured(
        ranges=_describe(trace, rows).join(table),
        kernels=kernels,
        shapes=trace.shapes,
        is_inside=covered,
        unattributed=unattributed,
        notes=(
            *filter(None, [note_placed_by_time(trace, np.flatnonzero(details.by_time & covered))]),
            *note_lost_calls(trace, unattributed, details.is_placed),
        ),
    )


def _choose_rows(trace: Trace, domain: str | None) -> Ints:
    """Rows of the ranges of a domain, in order of start, the longest of those that start together first."""
    ranges = trace.ranges
    chosen = np.ones(len(ranges), np.bool_)
    if domain is not None:
        chosen = ranges.domain == (trace.strings.index(domain) if domain in trace.strings else -1)
    rows = np.flatnonzero(chosen)
    return rows[np.lexsort((-ranges.end_ns[rows], ranges.start_ns[rows]))]


def split_pairs(counts: Ints) -> Iterator[tuple[int, int]]:
    """Spans of ranges that hold about PAIRS_AT_ONCE launches each; at least one span, which may be empty.

    Args:
        counts: shape (ranges,), launches in each.
    """
    block = (np.cumsum(counts) - counts) // PAIRS_AT_ONCE
    edges = np.flatnonzero(np.diff(block)) + 1
    yield from zip([0, *edges.tolist()], [*edges.tolist(), len(counts)], strict=True)


def _concatenate(blocks: list[dict[str, Ints]]) -> pd.DataFrame:
    """One table of the columns of all blocks; it empties the blocks, so that each column is in memory once."""
    columns = {name: np.concatenate([block.pop(name) for block in blocks]) for name in list(blocks[0])}
    table: pd.DataFrame = pd.DataFrame(columns, copy=False)
    return table


def _measure_block(
    trace: Trace, details: LaunchDetails, launched: Ints, members: Membership, first: int, last: int
) -> tuple[dict[str, Ints], dict[str, Ints]]:
    """Sums by range, and uses by range and shape, of the ranges from ``first`` to ``last``."""
    where, event = members.pairs(first, last)
    sums, uses = measure_launches(trace, details, where, launched[event], last - first)
    uses["range"] += first
    return sums, uses


def _sum_synchronisation(trace: Trace, rows: Ints) -> Ints:
    """Host time in synchronisation calls, by range."""
    calls = trace.calls
    numbers = [number for number, text in enumerate(trace.strings) if "Synchronize" in text]
    waiting = np.flatnonzero(np.isin(calls.name, numbers))
    members = attribute(trace, rows, calls.process[waiting], calls.thread[waiting], calls.start_ns[waiting])
    duration_ns = np.maximum(calls.end_ns - calls.start_ns, 0)[waiting]
    return members.sum_of(duration_ns)


def _describe(trace: Trace, rows: Ints) -> pd.DataFrame:
    """The columns of Measured.ranges that describe the range itself."""
    ranges, texts = trace.ranges, np.array(trace.strings, dtype=object)
    table: pd.DataFrame = pd.DataFrame(
        {
            "id": ranges.payload[rows],
            "name": texts[ranges.name[rows]],
            "domain": texts[ranges.domain[rows]],
            "process": ranges.process[rows],
            "thread": ranges.thread[rows],
            "is_open": ranges.is_open[rows],
            "start_ns": ranges.start_ns[rows],
            "end_ns": ranges.end_ns[rows],
            "wall_ns": np.maximum(ranges.end_ns[rows] - ranges.start_ns[rows], 0),
        }
    )
    return table
