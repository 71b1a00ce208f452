"""What the parameters of a call that launches a kernel say: its attributes, shape and arguments.

They lie in memory as CUDA's headers lay out the parameters of each function of the runtime and the driver.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from ctypes import c_uint32, c_uint64

COOPERATIVE = "cooperative"
_ATTRIBUTES = {
    2: (COOPERATIVE, "<i"), 5: ("cluster scheduling", "<i"), 6: ("overlap with the launch before", "<i"),
    8: ("priority", "<i"), 9: ("memory domains", "<2B"), 10: ("memory domain", "<i"),
    11: ("preferred cluster", "<3I"), 14: ("shared memory carveout", "<i"),
}  # fmt: skip
"""CUlaunchAttributeID -> name, and what of its value has a meaning: the rest of the union is not set."""

_NEEDLESS_ATTRIBUTES = (0, 3, 4)
"""Nothing, how the host waits, and the cluster, which is in the records."""

_ATTRIBUTE_BYTES, _MOST_ATTRIBUTES = 72, 32
_PACKED_POINTER, _PACKED_SIZE = 1, 2
"""CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE, for arguments in one buffer."""

Layout = Sequence[tuple[int, int]]
"""Offset and size of each parameter of a kernel."""


def read_attributes(parameters: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Attributes of a launch through a configuration, as text, and the numbers of those that are not understood.

    Args:
        parameters: of the call, which begin with the configuration; 0 for a call without one.
    """
    if not parameters:
        return (), ()
    configuration = word(parameters, 0)
    first, count = word(configuration, 40), c_uint32.from_address(configuration + 48).value
    found, unread = [], []
    for place in range(min(count, _MOST_ATTRIBUTES) if first else 0):
        at = first + place * _ATTRIBUTE_BYTES
        number = c_uint32.from_address(at).value
        if number in _ATTRIBUTES:
            name, layout = _ATTRIBUTES[number]
            value = struct.unpack(layout, ctypes.string_at(at + 8, struct.calcsize(layout)))
            found.append(f"{name} {' '.join(map(str, value))}")
        elif number not in _NEEDLESS_ATTRIBUTES:
            unread.append(number)
    return tuple(sorted(found)), tuple(unread)


def read_shape(parameters: int, *, is_configured: bool) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Grid and block of a launch: behind the function, or where a configuration begins."""
    at = word(parameters, 0) if is_configured else parameters + 8
    x, y, z, *block = struct.unpack("<6I", ctypes.string_at(at, 24))
    return (x, y, z), (block[0], block[1], block[2])


def word(address: int, offset: int) -> int:
    """The 8 bytes at an offset from an address, as a number."""
    return c_uint64.from_address(address + offset).value


def read_arguments(array: int, layout: Layout) -> dict[int, bytes]:
    """Arguments by their ordinals.

    Args:
        array: address of pointers to them, 0 for none.
        layout: of the kernel.
    """
    if not array:
        return {}
    return {index: ctypes.string_at(word(array, 8 * index), size) for index, (_, size) in enumerate(layout)}


def read_packed(extra: int, layout: Layout) -> dict[int, bytes]:
    """Arguments that lie in one buffer, behind a list of keys and pointers that ends with 0."""
    pointers: dict[int, int] = {}
    while extra and (key := word(extra, 0)):
        pointers[key] = word(extra, 8)
        extra += 16
    if _PACKED_POINTER not in pointers or _PACKED_SIZE not in pointers:
        return {}
    packed = ctypes.string_at(pointers[_PACKED_POINTER], word(pointers[_PACKED_SIZE], 0))
    return {index: packed[offset : offset + size] for index, (offset, size) in enumerate(layout)}
