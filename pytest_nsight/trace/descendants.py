"""Processes that the measured ones started: whose rounds their launches belong to.

A child has no rounds of its own. What it launches while its parent's round is open is the parent's work.

MERGED: Which board each launch ran on, by the recording's own account.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from pytest_nsight.model.trace import Ints, Trace, TraceDevice


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


UNKNOWN_BOARD = -1
_DEVICES = 1 << 16


def find_boards(trace: Trace, row: Ints) -> Ints:
    """The board of some launches.

    Args:
        trace: any trace.
        row: shape (launches,), rows of ``trace.launches``.

    Returns:
        Shape (launches,): index into ``trace.devices``, the same one for the same board, whatever the process
        calls it; UNKNOWN_BOARD where the recording does not tell.
    """
    key = trace.launches.process[row] * _DEVICES + trace.launches.device[row]
    if len(key) and (key == key[0]).all():
        return np.full(len(key), _identify(trace, int(key[0])), np.int64)
    places, codes = np.unique(key, return_inverse=True)
    boards = np.array([_identify(trace, place) for place in places.tolist()], np.int64)
    return boards[codes]


def _identify(trace: Trace, place: int) -> int:
    process, ordinal = divmod(place, _DEVICES)
    device = trace.find_device(process, ordinal)
    # Under CUDA_VISIBLE_DEVICES each process numbers the boards anew: one numbering for all then says nothing.
    if device is None or (device.process is None and len(trace.devices) > 1):
        return UNKNOWN_BOARD
    return _first_like(trace.devices, device)


def _first_like(devices: tuple[TraceDevice, ...], wanted: TraceDevice) -> int:
    return next(number for number, device in enumerate(devices) if device.uuid == wanted.uuid)
