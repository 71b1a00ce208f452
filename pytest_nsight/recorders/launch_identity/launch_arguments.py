"""The arguments of a launch as text that is the same wherever the launch is the same work. Pure.

An address never repeats from process to process, so a pointer counts by what a kernel can notice of it: its
alignment, size and place of the allocation behind it, and which other pointers of the round are equal to it. Of
memory of the process that CUDA does not know only a small alignment counts, as it lies elsewhere in every process.
Everything else in the arguments counts by its bytes.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_nsight.model.identity import THEN
from pytest_nsight.recorders.machine_code.machine_code import ADDRESS_BYTES, Parameter

_NUMBER = re.compile(r"-?\d+|[0-9a-f]+")
_LONGEST_NUMBER = 24
"""Characters of a number that is shown; of a longer one, the bytes of a struct, the digest is kept."""

_PROCESS_ALIGNMENT = 16
"""What stacks and heaps keep in every process, and the widest load of most architectures."""

_MOST_ALIGNMENT = 256
"""The driver's own allocations are aligned so; more makes no difference to any load."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A piece of memory as the driver gave it out.

    Attributes:
        address: where it begins; that which was looked up where CUDA does not know it.
        size: bytes; 0 of the process's own memory, which CUDA does not know.
        memory: " of the host" or " managed" where it may lie on the host, "" on the device.
    """

    address: int
    size: int
    memory: str = ""


FindAllocation = Callable[[int], "Allocation | None"]
"""From an address to the allocation that it points into, None if the driver knows none."""


def describe_arguments(
    values: Mapping[int, bytes], parameters: Sequence[Parameter], find: FindAllocation, numbers: dict[int, int]
) -> tuple[str, ...]:
    """One text per argument: pointers by number, alignment and size of their allocation, all else by its bytes.

    Equal pointers have the same number. So a kernel that works in place differs from one that does not. What the
    launch before it has written lies in a cache, so reading that differs from reading something else, too.

    Args:
        values: ordinal -> the argument's bytes.
        parameters: the kernel's parameters.
        find: looks addresses up.
        numbers: address -> its number in this round; new addresses are added.

    Raises:
        ValueError: an argument has another size than its parameter.
    """
    described = []
    for parameter in parameters:
        value = _check(values[parameter.ordinal], parameter)
        described.append(_describe(value, parameter.offset, find, numbers))
    return tuple(described)


def find_pointers(
    values: Mapping[int, bytes], parameters: Sequence[Parameter], find: FindAllocation
) -> dict[int, Allocation]:
    """Address -> allocation, of all words of the arguments that are addresses now; later it may be freed.

    Args:
        values: ordinal -> the argument's bytes.
        parameters: the kernel's parameters.
        find: looks addresses up.

    Raises:
        ValueError: an argument has another size than its parameter.
    """
    words: set[int] = set()
    for parameter in parameters:
        words.update(_list_words(_check(values[parameter.ordinal], parameter), parameter.offset))
    found = {word: find(word) for word in words if word}
    return {word: allocation for word, allocation in found.items() if allocation is not None}


def _check(value: bytes, parameter: Parameter) -> bytes:
    if len(value) != parameter.size:
        raise ValueError(f"argument {parameter.ordinal} has {len(value)} bytes instead of {parameter.size}")
    return value


def _list_words(value: bytes, offset: int) -> tuple[int, ...]:
    """The words of an argument that may be addresses: those that are aligned.

    Args:
        value: of the argument.
        offset: where it lies among the parameters.
    """
    begin = -offset % ADDRESS_BYTES
    whole = max(0, (len(value) - begin) // ADDRESS_BYTES)
    return struct.unpack_from(f"<{whole}Q", value, min(begin, len(value)))


def _describe(value: bytes, offset: int, find: FindAllocation, numbers: dict[int, int]) -> str:
    """A struct may hold pointers among other things: each aligned word is looked at."""
    parts: list[str] = []
    position, begin = 0, -offset % ADDRESS_BYTES
    for place, address in enumerate(_list_words(value, offset)):
        allocation = find(address) if address else None
        if allocation is not None:
            at = begin + place * ADDRESS_BYTES
            parts += [_plain(value[position:at])] if position < at else []
            parts.append(f"pointer {numbers.setdefault(address, len(numbers))} {_say_target(address, allocation)}")
            position = at + ADDRESS_BYTES
    return ", ".join(parts + ([_plain(value[position:])] if position < len(value) else []))


def _say_target(address: int, allocation: Allocation) -> str:
    if not allocation.size:
        return f"aligned to {min(alignment_of(address), _PROCESS_ALIGNMENT)} into the process"
    return f"aligned to {alignment_of(address)} into {allocation.size} bytes{allocation.memory}"


def _plain(value: bytes) -> str:
    if len(value) in (1, 2, 4, 8):
        return str(int.from_bytes(value, "little", signed=True))
    return value.hex()


def alignment_of(address: int) -> int:
    """The largest power of two, up to 256, that divides an address."""
    return min(address & -address, _MOST_ALIGNMENT) if address else _MOST_ALIGNMENT


def join_rounds(first: str, later: str) -> str | None:
    """One text for an argument whose numbers differ from round to round, such as one that counts steps.

    Args:
        first: the argument in a round, as `describe_arguments` says it.
        later: in the next one.

    Returns:
        What equals only a text of the same two; None where more than numbers differ.
    """
    pairs = list(zip(first.split(", "), later.split(", "), strict=False))
    is_as_long = first.count(", ") == later.count(", ")
    if not is_as_long or not all(one == other or _are_numbers(one, other) for one, other in pairs):
        return None
    if max(len(first), len(later)) <= _LONGEST_NUMBER:
        return f"{first}{THEN}{later}"
    return f"{first}{THEN}#{hashlib.sha256(later.encode()).hexdigest()[:16]}"


def _are_numbers(one: str, other: str) -> bool:
    return bool(_NUMBER.fullmatch(one) and _NUMBER.fullmatch(other))
