"""Which worker a launching process belongs to, and which board each launch ran on.

A process that a worker started has no rounds of its own. What it launches while a round of the worker is open
counts as the worker's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np

from pytest_nsight.model.sorted_keys import distinct, rank_values
from pytest_nsight.model.trace import Ints, Trace
from pytest_nsight.model.trace_devices import TraceDevice


def find_parents(trace: Trace, workers: Collection[int], known: Mapping[int, int]) -> dict[int, int]:
    """The worker behind every other process of a trace.

    A profiler records a program and its descendants only. With one worker, every other process is its
    descendant. With several workers, the process that watched them must supply the relation.

    Args:
        trace: of one or several workers.
        workers: their process ids.
        known: process id of a descendant -> process id of its worker, where it was observed.

    Returns:
        Process id -> process id of its worker, for each process that launched something and has a worker.
    """
    descendants = {int(process) for process in _processes(trace.launches.process)} - set(workers)
    if len(workers) == 1:
        (worker,) = workers
        return dict.fromkeys(descendants, worker)
    return {process: known[process] for process in descendants if known.get(process) in workers}


def find_workers_of_events(process: Ints, parents: Mapping[int, int]) -> Ints:
    """The process whose rounds each event counts in, shape (events,).

    Args:
        process: shape (events,), the process of each event.
        parents: descendant -> worker.
    """
    if not parents:
        return process
    workers: Ints = process.copy()
    for child, parent in parents.items():
        workers[process == child] = parent
    return workers


def note_unassigned_processes(
    trace: Trace, workers: Collection[int], parents: Mapping[int, int]
) -> tuple[str, ...]:
    """One sentence for each process that launched something and has no known worker.

    Args:
        trace: of several workers.
        workers: their process ids.
        parents: descendant -> worker.
    """
    unassigned = _processes(trace.launches.process) - set(workers) - set(parents)
    return tuple(
        f"{int((trace.launches.process == process).sum())} launches of process {process} are in no round, because "
        "the worker that started it is unknown; run with -n 0 to have them counted"
        for process in sorted(unassigned)
    )


def _processes(column: Ints) -> set[int]:
    if not len(column) or (column == column[0]).all():
        return set(column[:1].tolist())
    return set(distinct(column).tolist())


UNKNOWN_BOARD = -1
_DEVICES = 1 << 16


def find_boards(trace: Trace, row: Ints) -> Ints:
    """The board of some launches.

    Args:
        trace: any trace.
        row: shape (launches,), rows of ``trace.launches``.

    Returns:
        Shape (launches,): index into ``trace.devices``. One board has one index, whatever ordinal a process
        uses for it. UNKNOWN_BOARD where the recording does not identify the board.
    """
    return identify_boards(trace, trace.launches.process[row], trace.launches.device[row].astype(np.int64))


def identify_boards(trace: Trace, process: Ints, ordinal: Ints) -> Ints:
    """The board that a process calls by an ordinal, as in find_boards.

    Args:
        trace: any trace.
        process: shape (places,).
        ordinal: shape (places,), CUDA's number of the device in that process.
    """
    key = process * _DEVICES + ordinal
    if len(key) and (key == key[0]).all():
        return np.full(len(key), _identify(trace, int(key[0])), np.int64)
    places, codes = rank_values(key)
    boards = np.array([_identify(trace, place) for place in places.tolist()], np.int64)
    return boards[codes]


def describe_board(trace: Trace, process: int, ordinal: int) -> TraceDevice:
    """The board that a process calls by an ordinal, with what the recording proves of it.

    Args:
        trace: any trace.
        process: process id.
        ordinal: CUDA's number of the device in that process.

    Returns:
        The board. Where the recording does not identify it, it has no uuid, and a name only if all boards have it.
    """
    number = _identify(trace, process * _DEVICES + ordinal)
    if number != UNKNOWN_BOARD:
        return trace.devices[number]
    if len({device.name for device in trace.devices}) != 1:
        return TraceDevice(process, ordinal, "", "")
    return dataclasses.replace(trace.devices[0], process=process, ordinal=ordinal, uuid="")


def _identify(trace: Trace, place: int) -> int:
    process, ordinal = divmod(place, _DEVICES)
    device = trace.find_device(process, ordinal)
    # Under CUDA_VISIBLE_DEVICES each process numbers the boards anew, so one numbering for all proves nothing.
    if device is None or (device.process is None and len(trace.devices) > 1):
        return UNKNOWN_BOARD
    return _first_like(trace.devices, device)


def _first_like(devices: tuple[TraceDevice, ...], wanted: TraceDevice) -> int:
    if not wanted.uuid:
        return devices.index(wanted)
    return next(number for number, device in enumerate(devices) if device.uuid == wanted.uuid)
