"""Which board each launch ran on, by the recording's own account."""

from __future__ import annotations

import numpy as np

from pytest_nsight.trace.model import Device, Ints, Trace

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


def _first_like(devices: tuple[Device, ...], wanted: Device) -> int:
    return next(number for number, device in enumerate(devices) if device.uuid == wanted.uuid)
