"""What a few plain instructions make of known registers; any other makes unknown what it may change."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from pytest_nsight.recorders.machine_code.instructions import Instruction, is_call_inside, list_changes
from pytest_nsight.recorders.machine_code.word_arithmetic import COMPUTED, Known, Value, compute, each

FindByte = Callable[[int], "int | None"]
"""From an offset in constant bank 0 to the byte there, None where it is not known."""

_NARROW_BYTES = 4

_DESTINATION = re.compile(r"U?[RP]\d+")
_PLAIN = re.compile(r"(-?)(~?)(U?R(?:\d+|Z)|0x[0-9a-f]+|\d+)(?:\.reuse)?")
_CONSTANT = re.compile(r"c\[0x0\]\s*\[(?:(U?R(?:\d+|Z))\+?)?(0x[0-9a-f]+)?\]")
_LOAD_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_LOAD = frozenset(("LDC", "ULDC", "LDCU"))
_READ_SPECIAL = frozenset(("S2R", "S2UR"))
_CLEAR_PAIR = "CS2R"
_DIRECTS = frozenset(("BRA", "EXIT", "RET", "BSSY", "BSYNC", "WARPSYNC"))
"""What follows these, or what they say of it, depends on more than registers."""


@dataclass(frozen=True, slots=True)
class PreparedInstruction:
    """An instruction with what its every visit asks for.

    Attributes:
        one: the instruction.
        changes: registers, predicates and barriers that it may change; None for any.
        conditions: predicates among its operands.
        is_computed: whether its result may be known.
        is_plain: whether it always runs, and the next one follows it.
        reads_constants: whether an operand lies in a constant bank.
    """

    one: Instruction
    changes: frozenset[str] | None
    conditions: tuple[str, ...]
    is_computed: bool
    is_plain: bool
    reads_constants: bool


def prepare_instruction(one: Instruction) -> PreparedInstruction:
    """An instruction, ready to be visited."""
    may_be_known = one.name in COMPUTED or one.name in _LOAD or one.name in (*_READ_SPECIAL, _CLEAR_PAIR)
    is_computed = may_be_known and bool(one.operands) and bool(_DESTINATION.fullmatch(one.operands[0]))
    is_plain = not one.guard and one.name not in _DIRECTS and not is_call_inside(one)
    return PreparedInstruction(
        one, list_changes(one), tuple(one.conditions), is_computed, is_plain, reads_constants=one.constants > 0
    )


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Computes with what is known of a launch.

    Attributes:
        find_byte: what is known of constant bank 0.
        blocks: axis -> numbers of the blocks along it, where the launch has few.
        find_narrow: likewise, for what is read as numbers of at most four bytes.
    """

    find_byte: FindByte
    blocks: Mapping[str, tuple[int, ...]]
    find_narrow: FindByte

    def follow(self, prepared: PreparedInstruction, before: Known, *, is_certain: bool) -> Known:
        """What is known after an instruction.

        Args:
            prepared: the instruction.
            before: what is known before it.
            is_certain: whether it runs; if not, it may.
        """
        changes = prepared.changes
        if changes is None:
            return {}
        after = before
        if not changes.isdisjoint(before):
            after = {name: value for name, value in before.items() if name not in changes}
        found = self._compute(prepared.one, before) if is_certain and prepared.is_computed else {}
        # What only some blocks jump by is not known.
        found = {name: value for name, value in found.items() if "P" not in name or isinstance(value, int)}
        return {**after, **found} if found else after

    def _compute(self, one: Instruction, before: Known) -> Known:
        """The registers that an instruction sets to what is known."""
        if one.name in _LOAD:
            return self._load(one, before)

        if one.name in _READ_SPECIAL:
            number = self.blocks.get(one.operands[1].removeprefix("SR_CTAID."))
            return {} if number is None else {one.operands[0]: number}
        if one.name == _CLEAR_PAIR:
            ((file, first), *_) = one.registers
            is_zero = one.operands[1:] == ("SRZ",) and not one.suffixes
            return {f"{file}{first + at}": 0 for at in range(2)} if is_zero else {}
        return compute(one, lambda operand: self._value(operand, before), partial(find_predicate, before))

    def _load(self, one: Instruction, before: Known) -> Known:
        widths = [_LOAD_BYTES[suffix] for suffix in one.suffixes if suffix in _LOAD_BYTES]
        if len(widths) != len(one.suffixes) or len(one.operands) != 2:
            return {}
        place = find_place(one.operands[1], before)
        if place is None:
            return {}
        size = widths[0] if widths else 4
        file, number = one.registers[0]
        found: Known = {}
        for word in range(max(size // 4, 1)):
            is_signed = one.suffixes[:1] in (("S8",), ("S16",))
            find = self.find_narrow if size <= _NARROW_BYTES else self.find_byte
            value = _read(find, place, 4 * word, min(size, 4), is_signed=is_signed)
            if value is not None:
                found[f"{file}{number + word}"] = value
        return found

    def _value(self, operand: str, before: Known) -> Value | None:
        """Of an operand of one word, None where it is not known."""
        if "c[" in operand:
            place = find_place(operand, before) if _CONSTANT.fullmatch(operand) else None
            return None if place is None else _read(self.find_narrow, place, 0, _NARROW_BYTES)
        found = _match_plain(operand)
        if found is None or found[2]:
            return None
        value = _find_register(before, found[3]) if "R" in found[3] else int(found[3], 0)
        return each(lambda word: -word, [value]) if found[1] else value


def _read(find: FindByte, place: Value, offset: int, size: int, *, is_signed: bool = False) -> Value | None:
    """A number in constant bank 0, None where it is not known."""

    def read(first: int) -> int | None:
        read = [find(first + offset + byte) for byte in range(size)]
        known = bytes(byte for byte in read if byte is not None)
        return int.from_bytes(known, "little", signed=is_signed) if len(known) == size else None

    return each(read, [place])


@lru_cache(maxsize=2**14)
def _match_plain(operand: str) -> re.Match[str] | None:
    return _PLAIN.fullmatch(operand)


def _find_register(known: Known, name: str) -> Value | None:
    return 0 if name.endswith("Z") else known.get(name)


def find_predicate(known: Known, name: str) -> bool | None:
    """The value of a predicate, such as "!P0"; None where it is not known."""
    plain = name.removeprefix("!")
    value = 1 if plain.endswith("PT") else known.get(plain)
    return None if value is None else bool(value) != name.startswith("!")


@lru_cache(maxsize=2**14)
def _search_constant(operand: str) -> re.Match[str] | None:
    return _CONSTANT.search(operand)


def find_place(operand: str, known: Known) -> Value | None:
    """The offset that an operand in constant bank 0 names, for each block."""
    found = _search_constant(operand)
    if found is None:
        return None
    literal = int(found[2] or "0", 16)
    return each(lambda base: base + literal, [_find_register(known, found[1])]) if found[1] else literal
