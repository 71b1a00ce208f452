"""Launches that belong to no range, counted by name and reason."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass

import numpy as np

from pytest_nsight.model.sorted_keys import rank_values
from pytest_nsight.model.trace import OWN_DOMAIN, SHARED_CORRELATION, Flags, Ints, Trace
from pytest_nsight.model.units import count
from pytest_nsight.trace.launch_table import sum_by
from pytest_nsight.trace.launches_by_time import flag_earlier


class UnattributedReason(enum.Enum):
    """Why a launch belongs to no range."""

    OUTSIDE = "outside every range"
    EARLIER = "launched before the recording"
    SHARED = "calls of several processes have its id"
    NO_CALL = "no API call"
    MIGRATION = "migration of managed memory"


_REASONS = tuple(UnattributedReason)
_MOST_NAMES = 3
_EXPORT_AGAIN = "export the report again with a current nsys"
_RECORD_CALLS = {
    False: f"record with `nsys profile --trace=cuda,nvtx`, or {_EXPORT_AGAIN}",
    True: "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
}
"""By whether PyTorch's profiler recorded."""


@dataclass(frozen=True, slots=True)
class UnattributedLaunches:
    """Launches with one name that belong to no range, for one reason.

    Attributes:
        name: normalised name.
        reason: why they belong to none.
        count: number of launches.
        total_ns: sum of their durations on the device.
    """

    name: str
    reason: UnattributedReason
    count: int
    total_ns: int


def find_unattributed(
    trace: Trace, is_unattributed: Flags, is_placed: Flags, duration_ns: Ints
) -> tuple[UnattributedLaunches, ...]:
    """Launches in no range by name and reason, the longest in total first.

    Args:
        trace: the trace.
        is_unattributed: shape (launches,), whether a launch is in no range.
        is_placed: shape (launches,), whether it is known when the host launched it.
        duration_ns: shape (launches,).
    """
    rows = np.flatnonzero(is_unattributed)
    is_migration = np.array([shape.is_migration for shape in trace.shapes] or [False], np.bool_)
    cases = (
        (UnattributedReason.OUTSIDE, is_placed[rows]),
        (UnattributedReason.MIGRATION, is_migration[trace.launches.shape[rows]]),
        (UnattributedReason.SHARED, trace.launches.correlation[rows] == SHARED_CORRELATION),
        (UnattributedReason.EARLIER, flag_earlier(trace, rows)),
    )
    otherwise = _REASONS.index(UnattributedReason.NO_CALL)
    reason = np.select([found for _, found in cases], [_REASONS.index(one) for one, _ in cases], otherwise)
    key = trace.launches.shape[rows].astype(np.int64) * len(_REASONS) + reason
    counts: Counter[tuple[str, UnattributedReason]] = Counter()
    totals: Counter[tuple[str, UnattributedReason]] = Counter()
    values, codes = rank_values(key)
    order = np.argsort(codes, kind="stable")
    times = sum_by(codes[order], duration_ns[rows][order], len(values))
    for value, number, total_ns in zip(values.tolist(), np.bincount(codes).tolist(), times.tolist(), strict=True):
        name = trace.shapes[value // len(_REASONS)].name, _REASONS[value % len(_REASONS)]
        counts[name] += number
        totals[name] += total_ns
    unattributed = (UnattributedLaunches(*name, counts[name], totals[name]) for name in counts)
    return tuple(sorted(unattributed, key=lambda one: (-one.total_ns, one.name, one.reason.value)))


def note_lost_calls(
    trace: Trace, unattributed: tuple[UnattributedLaunches, ...], is_placed: Flags
) -> tuple[str, ...]:
    """Sentences on launches without an API call: a window that begins late, an export without ids, or a loss.

    Args:
        trace: the trace.
        unattributed: launches in no range. Those with a call are warm-up or outside the user's ranges.
        is_placed: shape (launches,), whether it is known when the host launched it.
    """
    remedies = (
        (
            UnattributedReason.EARLIER,
            ("was launched before the recording began", "were launched before the recording began"),
            "record from an earlier moment",
        ),
        (
            UnattributedReason.SHARED,
            (
                "has a correlation id that calls of several processes share,",
                "have correlation ids that calls of several processes share,",
            ),
            "merge ranks with distinct ids, or show one rank's file",
        ),
        (
            UnattributedReason.NO_CALL,
            ("has no API call in the recording", "have no API call in the recording"),
            _explain_loss(trace, np.flatnonzero(~is_placed)),
        ),
    )
    notes = []
    for reason, (one_does, many_do), remedy in remedies:
        lost = [one for one in unattributed if one.reason is reason]
        number = sum(one.count for one in lost)
        names = ", ".join(dict.fromkeys(one.name for one in lost[:3]))
        if number:
            of_all = f"of {len(trace.launches):,} launches"
            what = count(number, f"{of_all} {one_does} and is", f"{of_all} {many_do} and are")
            notes.append(f"{what} in no range ({names}): {remedy}")
    return tuple(notes)


def _explain_loss(trace: Trace, rows: Ints) -> str:
    """Why launches have no call, and what to do.

    Args:
        trace: the trace.
        rows: shape (launches,), rows of ``trace.launches`` without a call.
    """
    launches, calls = trace.launches, trace.calls
    is_own, by_torch = OWN_DOMAIN in trace.strings, "torch" in trace.tool.lower()
    remedy = "measure fewer cases or rounds at once" if is_own else "record a shorter part of the program"
    if not len(calls) and not (is_own and by_torch):
        return f"the recording holds no CUDA call; {_RECORD_CALLS[by_torch]}"
    if by_torch:
        return f"the profiler lost data; {remedy}"
    # The kernels are in one table of an export, the copies in another: a column may be missing from one of them.
    kinds = np.array([shape.kind for shape in trace.shapes] or [""], np.str_)[launches.shape]
    is_alike = np.isin(kinds, kinds[rows])
    if not calls.correlation.any() or not launches.correlation[is_alike].any():
        return f"nothing links launches to calls (column correlationId is missing or empty); {_EXPORT_AGAIN}"
    if not np.isin(launches.process[is_alike], calls.process).any():
        columns = "columns globalPid of launches and globalTid of calls"
        return f"no launch has the process of a call ({columns}: one is missing or empty); {_EXPORT_AGAIN}"
    return f"the profiler lost data; {remedy}"


def note_placed_by_time(trace: Trace, rows: Ints) -> str:
    """A sentence on launches that count in a round because they ran in it, "" if there are none.

    Args:
        trace: the trace.
        rows: shape (launches,), rows of ``trace.launches``.
    """
    if not len(rows):
        return ""
    names = [trace.shapes[shape].name for shape in np.unique(trace.launches.shape[rows])[:_MOST_NAMES].tolist()]
    of_all = f"of {len(trace.launches):,} launches"
    lost = f"no API call in the recording ({', '.join(names)})"
    one = (
        f"{of_all} has {lost}: it counts in the round that it ran in, but in no part of it, and the metric launch "
        "lacks its call"
    )
    many = (
        f"{of_all} have {lost}: they count in the rounds that they ran in, but in no part of one, and the metric "
        "launch lacks their calls"
    )
    return count(len(rows), one, many)
