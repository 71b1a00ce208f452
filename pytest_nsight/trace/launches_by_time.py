"""The rounds of launches whose API call is missing from a recording.

Some profilers lose calls: torch.profiler does not see those of JAX. A round is synchronised at both ends, so what
the device does within its time was launched in it, on whichever thread. Which of the round's named parts launched
it is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from pytest_nsight.model.sorted_keys import distinct, join_keys
from pytest_nsight.model.trace import OWN_DOMAIN, SHARED_CORRELATION, Flags, Ints, Trace
from pytest_nsight.protocol.manifest import Manifest

_NO_ROUND = -1

Rounds = Mapping[int, Collection[int]]
"""Process id -> payloads of the ranges that are rounds; a test may have ranges around and outside of its rounds."""


def list_rounds(manifests: Iterable[Manifest]) -> Rounds:
    """The measured rounds of some workers, by their own account."""
    return {manifest.pid: {one.id for one in manifest.rounds} for manifest in manifests}


def find_rounds_by_time(trace: Trace, rows: Ints, known: Rounds | None) -> tuple[Flags, Ints]:
    """The rounds that whole launches lie in.

    A launch that other processes share, that was made before the recording began, or that the driver makes by
    itself (migrations of managed memory) lies in none.

    Args:
        trace: any trace; one without ranges of the project's own domain has no rounds.
        rows: shape (launches,), rows of ``trace.launches`` without a call.
        known: the rounds, by the worker's account; None where there is none: then the outermost ranges of the
            project's own domain stand for them.

    Returns:
        Whether each launch lies in a round, and when that round begins, shape (launches,) each.
    """
    launches, ranges = trace.launches, trace.ranges
    rounds = _find_rows(trace, known) if len(rows) else rows
    if not len(rounds):
        return np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.int64)
    begun, offered = join_keys(
        (launches.process[rows], launches.start_ns[rows]), (ranges.process[rounds], ranges.start_ns[rounds])
    )
    order = np.argsort(offered, kind="stable")
    at = np.searchsorted(offered[order], begun, side="right") - 1
    found = rounds[order[np.maximum(at, 0)]]
    is_migration = np.array([shape.is_migration for shape in trace.shapes], np.bool_)
    is_inside = (
        (at != _NO_ROUND)
        & (ranges.process[found] == launches.process[rows])
        & (launches.end_ns[rows] <= ranges.end_ns[found])
        & (launches.correlation[rows] != SHARED_CORRELATION)
        & ~is_migration[launches.shape[rows]]
        & ~flag_earlier(trace, rows)
    )
    return is_inside, ranges.start_ns[found]


def flag_earlier(trace: Trace, rows: Ints) -> Flags:
    """Whether launches were made before the first recorded call of their process.

    CUPTI numbers the calls of a process upwards: a correlation below those of all recorded calls is proof.
    """
    calls, launches = trace.calls, trace.launches
    is_earlier = np.zeros(len(rows), np.bool_)
    for process in distinct(launches.process[rows]).tolist():
        known = calls.correlation[(calls.process == process) & (calls.correlation != 0)]
        if len(known):
            number = launches.correlation[rows]
            is_earlier |= (launches.process[rows] == process) & (number != 0) & (number < known.min())
    return is_earlier


def _find_rows(trace: Trace, known: Rounds | None) -> Ints:
    """Rows of the rounds' ranges, by process and start; of some within one another the outermost."""
    ranges = trace.ranges
    own = trace.strings.index(OWN_DOMAIN) if OWN_DOMAIN in trace.strings else -1
    is_round = (ranges.domain == own) & (ranges.payload >= 0)
    if known is not None:
        is_known = np.zeros(len(ranges), np.bool_)
        for process, payloads in known.items():
            is_known |= (ranges.process == process) & np.isin(ranges.payload, list(payloads))
        is_round &= is_known
    rows = np.flatnonzero(is_round)
    rows = rows[np.lexsort((-ranges.end_ns[rows], ranges.start_ns[rows], ranges.process[rows]))]
    kept: list[int] = []
    for row in rows.tolist():
        if (
            kept
            and ranges.process[row] == ranges.process[kept[-1]]
            and ranges.start_ns[row] < ranges.end_ns[kept[-1]]
        ):
            continue
        kept.append(row)
    return np.array(kept, np.int64)
