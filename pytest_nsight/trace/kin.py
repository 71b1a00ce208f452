"""Processes that the measured ones started: whose rounds their launches belong to.

A child has no rounds of its own. What it launches while its parent's round is open is the parent's work.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from pytest_nsight.trace.model import Ints, Trace


def find_parents(trace: Trace, workers: Collection[int], known: Mapping[int, int]) -> dict[int, int]:
    """The worker behind every other process of a trace.

    A profiler records a program and what it starts, and nothing else: with one worker, every other process
    is its descendant. With several, only who watched them can tell.

    Args:
        trace: of one or several workers.
        workers: their process ids.
        known: process id of a descendant -> that of its worker, as far as somebody watched.

    Returns:
        Process id -> that of its worker, for the processes that launched something and have one.
    """
    others = {int(process) for process in _processes(trace.launches.process)} - set(workers)
    if len(workers) == 1:
        (worker,) = workers
        return dict.fromkeys(others, worker)
    return {process: known[process] for process in others if known.get(process) in workers}


def adopt(process: Ints, parents: Mapping[int, int]) -> Ints:
    """The process whose rounds each event belongs to.

    Args:
        process: shape (events,), where it happened.
        parents: descendant -> worker.
    """
    if not parents:
        return process
    adopted: Ints = process.copy()
    for child, parent in parents.items():
        adopted[process == child] = parent
    return adopted


def note_orphans(trace: Trace, workers: Collection[int], parents: Mapping[int, int]) -> tuple[str, ...]:
    """Sentences on processes that launched something and belong to nobody known.

    Args:
        trace: of several workers.
        workers: their process ids.
        parents: descendant -> worker.
    """
    orphans = _processes(trace.launches.process) - set(workers) - set(parents)
    return tuple(
        f"{int((trace.launches.process == process).sum())} launches of process {process} are in no round: "
        "which worker started it is unknown; run without -n to have them counted"
        for process in sorted(orphans)
    )


def _processes(column: Ints) -> set[int]:
    if not len(column) or (column == column[0]).all():
        return set(column[:1].tolist())
    return set(np.unique(column).tolist())
