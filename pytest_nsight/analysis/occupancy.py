"""The theoretical occupancy of a kernel: the share of a multiprocessor's warps that its launch allows. Pure.

The method is that of NVIDIA's occupancy calculator: warps, registers and shared memory of a block are rounded up to
the units in which the hardware hands them out, and the scarcest resource limits the number of resident blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pytest_nsight.model.shapes import Shape
from pytest_nsight.model.sorted_keys import distinct
from pytest_nsight.model.trace import Ints, Trace
from pytest_nsight.model.trace_devices import MultiprocessorLimits
from pytest_nsight.trace.descendants import find_boards

_WARP = 32
_REGISTER_UNIT = 256
"""Registers are handed out to a warp in units of 256, from compute capability 3 on."""
_WARP_UNIT = 4
_MOST_REGISTERS = 255


@dataclass(frozen=True, slots=True, order=True)
class Occupancy:
    """What limits the resident warps of a kernel.

    Attributes:
        ratio: resident warps over the most that a multiprocessor holds, at most 1.
        limited_by: "warps", "blocks", "registers" or "shared memory".
    """

    ratio: float
    limited_by: str


def estimate_occupancy(shape: Shape, limits: MultiprocessorLimits) -> Occupancy | None:
    """The theoretical occupancy of a shape.

    Args:
        shape: a kernel's name and launch configuration; its shared memory is known.
        limits: those of a multiprocessor of the device.

    Returns:
        None for a shape without blocks, for one that cannot run on the device, and where a number is not recorded
        that may be what limits it.
    """
    threads = math.prod(shape.block)
    if shape.kind != "kernel" or threads < 1 or shape.registers < 1 or not limits.shared_bytes:
        return None
    warps = math.ceil(threads / _WARP)
    by_warp = _round_up(min(shape.registers, _MOST_REGISTERS) * _WARP, _REGISTER_UNIT)
    resident = limits.registers // by_warp // _WARP_UNIT * _WARP_UNIT
    block_bytes = _round_up(shape.shared_bytes + limits.reserved_bytes, limits.shared_unit)
    allowed = {
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
        "registers": resident // warps,
        "shared memory": limits.shared_bytes // block_bytes if block_bytes else limits.blocks,
    }
    limited_by, blocks = min(allowed.items(), key=lambda item: item[1])
    if blocks <= 0:
        return None
    return Occupancy(min(blocks * warps / limits.warps, 1.0), limited_by)


def estimate_occupancies(trace: Trace, rows: Ints) -> dict[int, tuple[Occupancy, ...]]:
    """The distinct theoretical occupancies of each shape on the boards that it ran on, the lowest first.

    A shape has none where its resources, one of its boards, or what that board allows is unknown. A launch whose
    board the recording does not identify may have run on any.

    Args:
        trace: the trace.
        rows: shape (launches,), rows of ``trace.launches`` that count.
    """
    size = len(trace.devices) + 1
    known: dict[int, set[MultiprocessorLimits | None]] = {}
    for key in distinct(trace.launches.shape[rows].astype(np.int64) * size + find_boards(trace, rows) + 1).tolist():
        shape, place = divmod(key, size)
        # Place 0 is that of an unidentified board.
        boards = trace.devices[place - 1 : place] if place else trace.devices
        known.setdefault(shape, set()).update(board.limits for board in boards)
    found = {}
    for shape, limits in known.items():
        is_known = shape not in trace.shared_unknown
        each = {estimate_occupancy(trace.shapes[shape], one) if one and is_known else None for one in limits}
        certain = sorted(one for one in each if one)
        found[shape] = tuple(certain) if len(certain) == len(each) else ()
    return found


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
