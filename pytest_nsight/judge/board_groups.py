"""Groups of boards of one product that time alike, found by the canaries.

Boards of one product fall into groups (docs/decisions/0010 has the H200s). Clocks do not separate the groups. The
canaries that stream through memory do, above all their ratio, which a shift of the whole session does not change.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_nsight.judge.location import Location, locate
from pytest_nsight.judge.subject_runs import SubjectRuns

STREAMS = ("copy", "triad")
"""The canaries that separate the groups: long streams, which repeat to a few hundredths of a percent."""

TOLERANCE = 0.004
"""Difference of log times, and of the log of their ratio, up to which the streams count as the same.

Over 17 H200s the ratio differs by at most 0.12 % within a group and by 0.80 to 0.98 % between the two groups.
"""

_SOFTWARE = ("torch", "triton", "cuda", "canaries")
"""Fields of the environment whose change may change what a canary launches, or how it was compiled."""


def keep_same_software(canary: SubjectRuns) -> SubjectRuns:
    """The canary's runs without stored runs of other software.

    An upgrade changes the canaries' kernels as it changes the user's, and the gate has to judge that change.
    """
    if not canary.new:
        return canary
    now = canary.new[-1].environment
    kept = (
        run
        for run in canary.baseline
        if all(run.environment.get(name, "") == now.get(name, "") for name in _SOFTWARE)
    )
    return replace(canary, baseline=tuple(kept))


def find_board_groups(canaries: Sequence[SubjectRuns]) -> Mapping[str, str]:
    """Board -> its group, named after one of its boards.

    Boards on which a stream was not measured are left out.

    Args:
        canaries: runs of the canaries.
    """
    levels: dict[str, dict[str, list[float]]] = {}
    for item in map(keep_same_software, canaries):
        name = item.subject.case.rpartition("::")[2]
        if name not in STREAMS:
            continue
        for run in (*item.baseline, *item.new):
            found = locate(run, item.policy.metric)
            if isinstance(found, Location) and found.has_one_level:
                levels.setdefault(run.board, {}).setdefault(name, []).append(found.log_ns)
    groups: dict[str, str] = {}
    founders: dict[str, list[float]] = {}
    for board, streams in sorted(levels.items()):
        if len(streams) < len(STREAMS):
            continue
        own = [statistics.median(streams[name]) for name in STREAMS]
        alike = (founder for founder, other in founders.items() if _is_alike(own, other))
        groups[board] = next(alike, board)
        founders.setdefault(groups[board], own)
    return groups


def _is_alike(one: Sequence[float], other: Sequence[float]) -> bool:
    shifts = [a - b for a, b in zip(one, other, strict=True)]
    return max(map(abs, (*shifts, max(shifts) - min(shifts)))) <= TOLERANCE
