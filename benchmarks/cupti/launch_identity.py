"""What makes two launches the same work: code, shape, arguments. Pure; equal identities need no timing.

An address never repeats from process to process, so a pointer counts by what a kernel can notice of it: its
alignment, the size of the allocation that it points into, and which other pointers of the launch are equal to it.
Everything else in the arguments counts by its bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from benchmarks.cupti.machine_code import Parameter

_WORD_BYTES = 8
_MOST_ALIGNMENT = 256
"""The driver's own allocations are aligned so; more makes no difference to any load."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A piece of device memory as the driver gave it out.

    Attributes:
        address: where it begins.
        size: bytes.
    """

    address: int
    size: int


FindAllocation = Callable[[int], "Allocation | None"]
"""From an address to the allocation that it points into, None if it is no device address."""


@dataclass(frozen=True, slots=True)
class LaunchIdentity:
    """One launch, copy or set, as far as it decides what the device does.

    Attributes:
        kind: "kernel", "copy", "set" or "graph node".
        name: of the kernel; direction of a copy.
        code: digest of the kernel's machine code; "" for copies, and where the code was not seen.
        grid: blocks.
        block: threads.
        cluster: blocks of a cluster, (0, 0, 0) for none.
        shared_bytes: dynamic shared memory.
        arguments: one text per argument; for a copy or set its size.
        stream: number of its stream, in the order in which streams first appear.
    """

    kind: str
    name: str
    code: str = ""
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    cluster: tuple[int, int, int] = (0, 0, 0)
    shared_bytes: int = 0
    arguments: tuple[str, ...] = ()
    stream: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which two sequences of launches differ.

    Attributes:
        launch: its place in the sequence, -1 where the number of launches differs.
        what: the attribute, such as "grid" or "argument 3".
        before: its value in the first sequence, as text.
        after: its value in the second.
    """

    launch: int
    what: str
    before: str
    after: str


def describe_arguments(
    values: Mapping[int, bytes], parameters: Sequence[Parameter], find: FindAllocation
) -> tuple[str, ...]:
    """One text per argument: pointers by number, alignment and size of their allocation, all else by its bytes.

    Equal pointers have the same number, so that a kernel that works in place differs from one that does not.

    Args:
        values: ordinal -> the argument's bytes.
        parameters: the kernel's parameters.
        find: looks addresses up.

    Raises:
        ValueError: an argument has another size than its parameter.
    """
    described = []
    numbers: dict[int, int] = {}
    for parameter in parameters:
        value = values[parameter.ordinal]
        if len(value) != parameter.size:
            raise ValueError(f"argument {parameter.ordinal} has {len(value)} bytes instead of {parameter.size}")
        described.append(_describe(value, parameter.offset, find, numbers))
    return tuple(described)


def _describe(value: bytes, offset: int, find: FindAllocation, numbers: dict[int, int]) -> str:
    """A struct may hold pointers among other things: each aligned word is looked at."""
    parts: list[str] = []
    plain = b""
    first = -offset % _WORD_BYTES
    position = 0
    while position < len(value):
        word = value[position : position + _WORD_BYTES]
        is_word = len(word) == _WORD_BYTES and (position - first) % _WORD_BYTES == 0
        address = struct.unpack("<Q", word)[0] if is_word else 0
        allocation = find(address) if address else None
        if allocation is None:
            step = min(_WORD_BYTES - (position - first) % _WORD_BYTES, len(value) - position)
            plain += value[position : position + step]
            position += step
            continue
        parts += [_plain(plain)] if plain else []
        plain = b""
        number = numbers.setdefault(address, len(numbers))
        parts.append(f"pointer {number} aligned to {alignment_of(address)} into {allocation.size} bytes")
        position += _WORD_BYTES
    return ", ".join(parts + ([_plain(plain)] if plain else []))


def _plain(value: bytes) -> str:
    if len(value) in (1, 2, 4, 8):
        return str(int.from_bytes(value, "little", signed=True))
    return value.hex()


def alignment_of(address: int) -> int:
    """The largest power of two, up to 256, that divides an address."""
    return min(address & -address, _MOST_ALIGNMENT) if address else _MOST_ALIGNMENT


def number_streams(streams: Sequence[int]) -> list[int]:
    """Each stream's number in the order of first appearance: what is stable of a stream's id."""
    order: dict[int, int] = {}
    return [order.setdefault(stream, len(order)) for stream in streams]


def digest(launches: Sequence[LaunchIdentity]) -> str:
    """A hash of a sequence of launches."""
    hashed = hashlib.sha256()
    for launch in launches:
        hashed.update(repr(tuple(getattr(launch, field.name) for field in fields(launch))).encode() + b"\n")
    return hashed.hexdigest()[:32]


def compare(before: Sequence[LaunchIdentity], after: Sequence[LaunchIdentity]) -> list[Difference]:
    """In what two sequences differ, launch by launch; nothing where they are identical."""
    if len(before) != len(after):
        return [Difference(-1, "launches", str(len(before)), str(len(after)))]
    found = []
    for index, (one, other) in enumerate(zip(before, after, strict=True)):
        for field in fields(LaunchIdentity):
            first, second = getattr(one, field.name), getattr(other, field.name)
            if first == second:
                continue
            if field.name == "arguments" and len(first) == len(second):
                found += [
                    Difference(index, f"argument {place}", was, is_now)
                    for place, (was, is_now) in enumerate(zip(first, second, strict=True))
                    if was != is_now
                ]
            else:
                found.append(Difference(index, field.name, str(first), str(second)))
    return found
