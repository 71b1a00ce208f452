"""Which ranges, launches and calls a picture is about, and the times that it covers. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_nsight.analysis.display_names import fold_names, label_names
from pytest_nsight.analysis.intervals import TimeSet
from pytest_nsight.analysis.range_mix import FEWEST_REPETITIONS
from pytest_nsight.analysis.range_tree import RangeTable, find_parents, list_names
from pytest_nsight.analysis.timeline import Timeline
from pytest_nsight.model.errors import UsageError
from pytest_nsight.model.sorted_keys import distinct, rank_groups
from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.model.units import name_some
from pytest_nsight.trace.attribution import NO_CALL, attribute
from pytest_nsight.trace.launch_table import LaunchDetails
from pytest_nsight.trace.nesting import NO_PARENT

_MOST_LISTED = 8


@dataclass(frozen=True, slots=True)
class Selection:
    """What a picture is about.

    Attributes:
        launches: rows of ``trace.launches``.
        calls: shape (calls,), which calls of the CUDA API.
        window: when, on the axis of the timeline.
    """

    launches: Ints
    calls: Flags
    window: TimeSet


@dataclass(frozen=True, slots=True)
class StepRange:
    """One range that is looked at on its own.

    Attributes:
        label: of the range.
        start_ns: when it began.
        end_ns: when it, or the last of its launches, ended.
        launches: rows of ``trace.launches``.
        row: of the range in ``trace.ranges``.
    """

    label: str
    start_ns: int
    end_ns: int
    launches: Ints
    row: int


def choose_ranges(trace: Trace, name: str, domain: str | None) -> Ints:
    """Rows of the ranges with a name, and of those inside them; all of one domain.

    Args:
        trace: any trace.
        name: what the names of the ranges must contain, or their labels as tables show them; "" for all.
        domain: their NVTX domain, "" for the default one; None for all.

    Raises:
        UsageError: there is none, though a name or a domain was given.
    """
    ranges = trace.ranges
    rows = np.arange(len(ranges))
    if domain is not None and len(ranges):
        rows = np.flatnonzero(np.array([text == domain for text in trace.strings], np.bool_)[ranges.domain])
    fits = np.ones(len(rows), np.bool_)
    if name and len(rows):
        fits = np.array([name in text for text in trace.strings], np.bool_)[ranges.name[rows]]
        if not fits.any():
            names, codes = list_names(trace, rows)
            labels = label_names(names)
            fits = np.array([name in labels[one] for one in names], np.bool_)[codes]
    if not fits.any() and (name or domain is not None):
        raise UsageError(_explain_none(trace, name, domain))
    if not fits.all():
        parent = find_parents(trace, rows)
        inside = np.flatnonzero((parent != NO_PARENT) & ~fits & fits[parent])
        while len(inside):
            fits[inside] = True
            inside = np.flatnonzero((parent != NO_PARENT) & ~fits & fits[parent])
    return rows[fits]


def select(trace: Trace, timeline: Timeline, table: RangeTable, *, is_chosen: bool) -> Selection:
    """What the ranges of a table hold; everything where none was chosen.

    Args:
        trace: the trace.
        timeline: of its devices.
        table: the ranges.
        is_chosen: whether the user chose them.
    """
    launches, calls = trace.launches, trace.calls
    if not is_chosen:
        every = np.ones(len(calls), np.bool_)
        return Selection(np.arange(len(launches)), every, timeline.whole())
    called = attribute(trace, table.rows, calls.process, calls.thread, calls.start_ns).covered
    window = find_window(trace, timeline, table, np.arange(len(table.rows)))
    return Selection(np.flatnonzero(table.costs.is_inside), called, window)


def find_window(trace: Trace, timeline: Timeline, table: RangeTable, positions: Ints) -> TimeSet:
    """When ranges or their launches run, on the devices of their processes.

    Args:
        trace: the trace.
        timeline: of its devices.
        table: the ranges.
        positions: shape (chosen,), positions in ``table.rows``.
    """
    launches, ranges = trace.launches, trace.ranges
    lines = timeline.axis.lines
    pairs = distinct(launches.process * max(lines, 1) + timeline.device)
    rows, last_ns = table.rows[positions], table.costs.last_ns[positions]
    line, start_ns, end_ns = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for pair in pairs.tolist():
        own = np.flatnonzero(ranges.process[rows] == pair // lines)
        line.append(np.full(len(own), pair % lines, np.int64))
        start_ns.append(ranges.start_ns[rows[own]])
        end_ns.append(last_ns[own])
    return TimeSet.union(timeline.axis, np.concatenate(line), np.concatenate(start_ns), np.concatenate(end_ns))


def find_steps(trace: Trace, table: RangeTable, *, is_chosen: bool) -> Ints:
    """Positions of the steps in ``table.rows``, none where no range launched anything.

    The step is the label of the outermost ranges with the most device time. Where that occurs once in each process
    and mostly repeats another label, as a whole program or an epoch does, the other one is the step, unless the
    user chose the ranges.

    Args:
        trace: the trace.
        table: the ranges.
        is_chosen: whether the user chose them.
    """
    device_ns = table.costs.kernel_ns + table.costs.copy_ns
    own = _find_leader(table, device_ns, np.flatnonzero(table.parent == NO_PARENT))
    while len(own) and not is_chosen and len(own) == len(distinct(trace.ranges.process[table.rows[own]])):
        inner = _find_leader(table, device_ns, np.flatnonzero(np.isin(table.parent, own)))
        is_most = 2 * device_ns[inner].sum() > device_ns[own].sum()
        if not is_most or len(inner) < FEWEST_REPETITIONS * len(own):
            break
        own = inner
    return own


def find_step(trace: Trace, table: RangeTable, *, is_chosen: bool) -> StepRange | None:
    """The median one of the steps; None where there are none.

    Args:
        trace: the trace.
        table: the ranges.
        is_chosen: whether the user chose them.
    """
    own = find_steps(trace, table, is_chosen=is_chosen)
    if not len(own):
        return None
    length_ns = table.costs.last_ns[own] - trace.ranges.start_ns[table.rows[own]]
    position = int(own[np.argsort(length_ns, kind="stable")[(len(own) - 1) // 2]])
    row = int(table.rows[position])
    return StepRange(
        label=table.labels[table.label[position]],
        start_ns=int(trace.ranges.start_ns[row]),
        end_ns=int(table.costs.last_ns[position]),
        launches=table.costs.placed[table.costs.members.among(np.array([position]))],
        row=row,
    )


def _find_leader(table: RangeTable, device_ns: Ints, positions: Ints) -> Ints:
    """Those of some ranges that have the label with the most device time, none where nothing was launched."""
    positions = positions[device_ns[positions] > 0]
    if not len(positions):
        return positions
    totals = np.bincount(table.label[positions], device_ns[positions])
    leader: Ints = positions[table.label[positions] == totals.argmax()]
    return leader


def flag_own_calls(trace: Trace, details: LaunchDetails, step: StepRange) -> Flags:
    """The calls of the threads that run a step: the one that opened it, and those that launch its work; (calls,).

    Args:
        trace: the trace.
        details: of its launches.
        step: the range.
    """
    calls, ranges = trace.calls, trace.ranges
    thread, threads = rank_groups(calls.process, calls.thread)
    is_own = np.zeros(threads, np.bool_)
    is_own[thread[(calls.process == ranges.process[step.row]) & (calls.thread == ranges.thread[step.row])]] = True
    call = details.call[step.launches]
    is_own[thread[call[call != NO_CALL]]] = True
    return is_own[thread]


def _explain_none(trace: Trace, name: str, domain: str | None) -> str:
    if not len(trace.ranges):
        return "the recording holds no range to choose from; leave out --range and --domain"
    domains = sorted({trace.strings[number] for number in distinct(trace.ranges.domain)})
    if domain is not None and domain not in domains:
        return f"no range has the domain {domain!r}; there are {_list(domains)}"
    names = sorted({*fold_names(trace.strings[number] for number in distinct(trace.ranges.name)).values()} - {""})
    place = f" in the domain {domain!r}" if domain is not None else ""
    missing = f"no range{place} has a name with {name!r} in it"
    if not names:
        return f"{missing}, as none has a name; leave out --range"
    return f"{missing}; the recording has {_list(names)}"


def _list(names: list[str]) -> str:
    return name_some(map(repr, names), _MOST_LISTED)
