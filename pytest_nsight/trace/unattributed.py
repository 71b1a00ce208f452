"""Launches that belong to no range, counted by name and reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from pytest_nsight.model.trace import Flags, Ints, Trace
from pytest_nsight.trace.launch_table import sum_by

NO_CALL_REASON = "no API call"
OUTSIDE_REASON = "outside every range"


@dataclass(frozen=True, slots=True)
class UnattributedLaunches:
    """Launches with one name that belong to no range, for one reason.

    Attributes:
        name: normalised name.
        reason: NO_CALL_REASON or OUTSIDE_REASON.
        count: number of launches.
        total_ns: sum of their durations on the device.
    """

    name: str
    reason: str
    count: int
    total_ns: int


def find_unattributed(
    trace: Trace, is_unattributed: Flags, is_placed: Flags, duration_ns: Ints
) -> tuple[UnattributedLaunches, ...]:
    """Launches in no range by name and reason, the longest in total first.

    Args:
        trace: the trace.
        is_unattributed: shape (launches,), whether a launch is in no range.
        is_placed: shape (launches,), whether the thread and time of the launch on the host are known.
        duration_ns: shape (launches,).
    """
    rows = np.flatnonzero(is_unattributed)
    key = trace.launches.shape[rows].astype(np.int64) * 2 + is_placed[rows]
    counts: Counter[tuple[str, str]] = Counter()
    totals: Counter[tuple[str, str]] = Counter()
    values, codes = np.unique(key, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    times = sum_by(codes[order], duration_ns[rows][order], len(values))
    for value, count, total_ns in zip(values.tolist(), np.bincount(codes).tolist(), times.tolist(), strict=True):
        name = trace.shapes[value // 2].name, OUTSIDE_REASON if value % 2 else NO_CALL_REASON
        counts[name] += count
        totals[name] += total_ns
    unattributed = (UnattributedLaunches(*name, counts[name], totals[name]) for name in counts)
    return tuple(sorted(unattributed, key=lambda one: (-one.total_ns, one.name, one.reason)))


def note_lost_calls(unattributed: tuple[UnattributedLaunches, ...], launches: int) -> tuple[str, ...]:
    """Sentences on launches that nothing seems to have made: a hole in the recording.

    Args:
        unattributed: launches in no range; those that have a call are warm-up or the program's own.
        launches: number of all launches.
    """
    lost = [one for one in unattributed if one.reason == NO_CALL_REASON]
    if not lost:
        return ()
    count = sum(one.count for one in lost)
    names = ", ".join(dict.fromkeys(one.name for one in lost[:3]))
    sentence = (
        f"{count} of {launches} launches have no API call in the recording and are in no round ({names}): "
        "the profiler lost data; measure fewer cases or rounds at once"
    )
    return (sentence,)
