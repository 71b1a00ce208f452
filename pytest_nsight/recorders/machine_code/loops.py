"""The loops of a kernel's machine code, found in its bytes alone: a jump back ends the body of a loop.

NVIDIA does not document the encoding. The place of the offset was read off what nvdisasm prints for code of SM 7.5
to 12.0, and `tests/recorders/test_loops.py` compares both for code that ptxas makes.
"""

from __future__ import annotations

import struct

from pytest_nsight.recorders.machine_code.instructions import INSTRUCTION_BYTES

MOST_LOOPS = 16
"""Loops that are kept, the longest; templates for matrix products have dozens of short ones."""

_OPCODE = 0xFFF
_JUMPS = frozenset((0x947, 0x547))
"""BRA, with the condition in a register of a thread and of a warp."""

_OFFSET_AT, _OFFSET_BITS = 34, 48
_LOW_BITS_AT, _LOW_BITS = 16, 8
"""From Hopper on the lowest bits of the offset have a place of their own."""

_FIRST_WITH_LOW_BITS = 90
_OFFSET_UNIT_BYTES = 4


def find_loops(code: bytes, architecture: int) -> tuple[int, ...]:
    """Instructions in the body of each loop, in the order of their ends.

    A loop within another one counts by itself, and in the outer one. Jumps back to one place belong to one loop.

    Args:
        code: machine code of one kernel.
        architecture: such as 90.
    """
    ends: dict[int, int] = {}
    pieces = struct.iter_unpack("<QQ", code[: len(code) // INSTRUCTION_BYTES * INSTRUCTION_BYTES])
    for at, (low, high) in enumerate(pieces):
        if low & _OPCODE in _JUMPS:
            target = at + 1 + _read_offset(high << 64 | low, architecture) // INSTRUCTION_BYTES
            # Behind a kernel's last instruction stands a jump to itself.
            if 0 <= target < at:
                ends[target] = at
    longest = sorted(ends.items(), key=lambda loop: loop[0] - loop[1])[:MOST_LOOPS]
    return tuple(end - start + 1 for start, end in sorted(longest, key=lambda loop: loop[1]))


def _read_offset(instruction: int, architecture: int) -> int:
    """Bytes from the instruction behind a jump to its target."""
    offset = _bits(instruction, _OFFSET_AT, _OFFSET_BITS)
    offset -= offset >> (_OFFSET_BITS - 1) << _OFFSET_BITS
    if architecture >= _FIRST_WITH_LOW_BITS:
        offset = (offset << _LOW_BITS) | _bits(instruction, _LOW_BITS_AT, _LOW_BITS)
    return offset * _OFFSET_UNIT_BYTES


def _bits(number: int, at: int, width: int) -> int:
    return number >> at & ((1 << width) - 1)
