"""Which bytes of its arguments a kernel gives to the tensor memory accelerator.

From Hopper on a kernel may get descriptors of tensors among its arguments (`__grid_constant__ CUtensorMap`). It
does not read them itself: it adds an offset to the address of its arguments, which is one of the driver's words in
constant bank 0, and gives the sum to an instruction such as UTMALDG. So the registers that may hold such an address
are followed along all ways through the code. Where one is used for anything else, a kernel may read any argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pytest_nsight.recorders.machine_code.instructions import ControlFlow, Instruction, is_call_inside, list_changes

_DESCRIPTOR = {"UTMALDG": 1, "UTMASTG": 1, "UTMAREDG": 1, "UTMACCTL": 0, "UTMAPF": 1}
"""Instruction -> which of its operands is the address of a descriptor."""

_COPIES = frozenset(("MOV", "R2UR", "UMOV"))
_ADDITIONS = frozenset(("IADD3", "UIADD3"))
_LOADS = frozenset(("LDC", "LDCU", "ULDC"))

_REGISTER = re.compile(r"(U?R)(\d+)(?:\.reuse)?")
_NAMED = re.compile(r"(?<!desc\[)\b(U?R)(\d+)(\.64)?")
"""Registers of an operand. What desc[] and gdesc[] name are properties of memory or of a matrix, no addresses."""
_NOTHING = re.compile(r"!?U?(?:RZ|P(?:\d+|T))")
"""The register that is always 0, and predicates: those that carry from one half to the other."""
_NUMBER = re.compile(r"0x[0-9a-f]+")

_HIGH = -1
"""In place of an offset: the upper half of the address."""

_PAIR, _FRAGMENT = 2, 4
_WIDE = {"64": _PAIR, "WIDE": _PAIR, "128": 4, "256": 8, "ENL2": 8}
"""Suffix -> registers that an operand may stand for. An instruction that is not known may read a fragment of a
matrix for each operand, or as many registers as a suffix such as x8 says."""
_TIMES = re.compile(r"x(\d+)")
_WRITTEN = {"64": 2, "128": 4}
"""Suffix of a load -> registers that it writes for certain."""
_MEMORY_LOADS = frozenset(("LD", "LDG", "LDL", "LDS", *_LOADS))
_BARRIERS = tuple(f"B{number}" for number in range(16))

_MOST_OFFSETS = 64
_MOST_VISITS = 256

_Held = dict[str, frozenset[int]]
"""Register -> offsets of the addresses that it may hold; barrier -> places of the instructions that threads which
have waited there may go on from. It is never changed in place."""


def find_descriptors(instructions: Sequence[Instruction], flow: ControlFlow, word: int) -> frozenset[int] | None:
    """Offsets, from the start of the parameters, of the descriptors that a kernel uses.

    Args:
        instructions: of the kernel, in order.
        flow: where they go.
        word: offset in constant bank 0 of the address of the parameters.

    Returns:
        None where an address of parameters may be used for anything else, or where the code is not understood.
    """
    if not flow.is_known or any(is_call_inside(one) for one in instructions):
        return None
    states: dict[int, _Held] = {0: {}}
    visits = [0] * len(instructions)
    waiting = [0]
    used: set[int] = set()
    while waiting:
        at = waiting.pop()
        one, before = instructions[at], states[at]
        visits[at] += 1
        found = _use(one, before, word)
        if found is None or visits[at] > _MOST_VISITS:
            return None
        used |= found
        after = _follow(one, before, word, [flow.find_target(at)] if one.name == "BSSY" else flow.joins)
        for way in _list_ways(flow, at, one, before):
            known = states.get(way)
            joined = after if known is None else _join(known, after)
            if joined != known:
                states[way] = joined
                waiting.append(way)
    return frozenset(used)


def _list_ways(flow: ControlFlow, at: int, one: Instruction, before: _Held) -> Iterator[int]:
    is_certain = not one.guard and not one.conditions
    leaves = one.name in ("EXIT", "RET") or (one.name == "BRA" and set(one.suffixes) <= {"U"})
    yield from flow.follow(at, may_jump=True, must_jump=is_certain and leaves)
    if one.name == "BSYNC":
        yield from before.get(one.operands[0], flow.joins)


def _use(one: Instruction, before: _Held, word: int) -> frozenset[int] | None:
    """Offsets of the descriptors that an instruction uses; None where it may use an address for anything else."""
    if one.name in _DESCRIPTOR:
        place = _DESCRIPTOR[one.name]
        others = (operand for at, operand in enumerate(one.operands) if at != place)
        if len(one.operands) <= place or any(_touches(operand, before) for operand in others):
            return None
        return _find_offsets(one.operands[place], before)
    if takes_address(one, word):
        return frozenset()
    if one.name == "CALL" and any(not offsets <= {_HIGH} for name, offsets in before.items() if "R" in name):
        # What is called finds its arguments in registers that the call does not name.
        return None
    sources = (
        one.operands[1:] if one.operands[:1] and one.operands[0] in (list_changes(one) or ()) else one.operands
    )
    if not any(_touches(operand, before, _count_read(one, operand)) for operand in sources):
        return frozenset()
    return frozenset() if _result(one, before) else None


def _count_read(one: Instruction, operand: str) -> int:
    """Registers that a source may stand for, at the most."""
    widths = [_WIDE[suffix] for suffix in one.suffixes if suffix in _WIDE]
    if list_changes(one) is None and "[" not in operand:
        widths += [_FRAGMENT, *(int(found[1]) for suffix in one.suffixes if (found := _TIMES.fullmatch(suffix)))]
    return max(widths, default=1)


def _follow(one: Instruction, before: _Held, word: int, places: Sequence[int | None]) -> _Held:
    """What registers and barriers may hold after an instruction.

    Args:
        one: the instruction.
        before: what they may hold before it.
        word: offset of the address of the parameters.
        places: what a barrier may hold after it, if it changes one.
    """
    result: _Held = {}
    if one.name in ("BSSY", "BMOV"):
        names = one.operands[:1] if one.name == "BSSY" else _BARRIERS
        result = dict.fromkeys(names, frozenset(place for place in places if place is not None))
    elif takes_address(one, word):
        low, high = _pair(one.operands[0])
        result = {low: frozenset({0}), high: frozenset({_HIGH})}
    elif one.name in _COPIES | _ADDITIONS:
        result = _result(one, before)
    if one.guard:
        return _join(before, result) if result else before
    written = _list_written(one)
    if not result and written.isdisjoint(before):
        return before
    return {**{name: held for name, held in before.items() if name not in written}, **result}


def _list_written(one: Instruction) -> frozenset[str]:
    """Registers that an instruction writes for certain: what it may change is more, and may keep its address."""
    found = _REGISTER.fullmatch(one.operands[0]) if one.operands else None
    if found is None or one.operands[0] not in (list_changes(one) or ()):
        return frozenset()
    count = max((_WRITTEN.get(suffix, 1) for suffix in one.suffixes), default=1) if one.name in _MEMORY_LOADS else 1
    return frozenset(f"{found[1]}{int(found[2]) + place}" for place in range(count))


def _result(one: Instruction, before: _Held) -> _Held:
    """The register that an instruction sets to an address, with its offsets; empty where it is another number."""
    if one.name not in _COPIES | _ADDITIONS or not _REGISTER.fullmatch(one.operands[0]):
        return {}
    is_upper = one.suffixes == ("X",)
    if one.suffixes and not (is_upper and one.name in _ADDITIONS):
        return {}
    held: list[frozenset[int]] = []
    added = 0
    for operand in one.operands[1:]:
        register = _REGISTER.fullmatch(operand)
        if register and "".join(register.groups()) in before:
            held.append(before["".join(register.groups())])
        elif _NUMBER.fullmatch(operand):
            added += int(operand, 16)
        elif not _NOTHING.fullmatch(operand):
            return {}
    if len(held) != 1 or (_HIGH in held[0]) != (held[0] == {_HIGH}) or (is_upper and held[0] != {_HIGH}):
        return {}
    is_high = _HIGH in held[0]
    if (is_high and (added or (one.name in _ADDITIONS and not is_upper))) or added >= 2**16:
        return {}
    return {one.operands[0]: held[0] if is_high else frozenset(offset + added for offset in held[0])}


def takes_address(one: Instruction, word: int) -> bool:
    """Whether an instruction loads the address of the parameters, which is at `word`, into a pair of registers."""
    is_pair = one.name in _LOADS and one.suffixes == ("64",) and len(one.operands) == 2
    return is_pair and re.sub(r"\s", "", one.operands[1]) == f"c[0x0][{word:#x}]"


def _find_offsets(operand: str, before: _Held) -> frozenset[int] | None:
    """Offsets that the register pair in brackets may hold, none where it holds another address."""
    if _REGISTER.fullmatch(operand[1:-1]) is None:
        return None
    low, high = _pair(operand[1:-1])
    offsets, upper = before.get(low, frozenset()), before.get(high, frozenset())
    if not offsets and not upper:
        return frozenset()
    is_whole = bool(offsets) and _HIGH not in offsets and upper == {_HIGH}
    return offsets if is_whole and len(offsets) <= _MOST_OFFSETS else None


def _pair(register: str) -> tuple[str, str]:
    found = _REGISTER.fullmatch(register)
    return (register, f"{found[1]}{int(found[2]) + 1}") if found else (register, "")


def _touches(operand: str, before: _Held, least: int = 1) -> bool:
    """Whether an operand may name a register that holds the lower half of an address: the upper alone is none."""
    for file, number, is_pair in _NAMED.findall(operand):
        width = max(least, _PAIR if is_pair else 1)
        held = (before.get(f"{file}{int(number) + place}", frozenset()) for place in range(width))
        if any(not offsets <= {_HIGH} for offsets in held):
            return True
    return False


def _join(first: _Held, second: _Held) -> _Held:
    none: frozenset[int] = frozenset()
    return {name: first.get(name, none) | second.get(name, none) for name in {*first, *second}}
