"""What a few plain instructions make of known registers; any other makes unknown what it may change."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Union

from pytest_nsight.collectors.cupti.instructions import Instruction, list_changes

Value = Union[int, "tuple[int, ...]"]
"""A word of 32 bits; several where it depends on the number of the block, one for each."""
Known = dict[str, "int | tuple[int, ...]"]
"""Register, predicate or barrier -> its value, where it is known. It is never changed in place."""

FindByte = Callable[[int], "int | None"]
"""From an offset in constant bank 0 to the byte there, None where it is not known."""

_NARROW_BYTES = 4
_WORD = 2**32
_SIGN = 2**31

_DESTINATION = re.compile(r"U?[RP]\d+")
_PLAIN = re.compile(r"(-?)(~?)(U?R(?:\d+|Z)|0x[0-9a-f]+|\d+)(?:\.reuse)?")
_CONSTANT = re.compile(r"c\[0x0\]\s*\[(?:(U?R(?:\d+|Z))\+?)?(0x[0-9a-f]+)?\]")
_LOAD_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b, "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
}  # fmt: skip
_COMBINE: Mapping[str, Callable[[bool, bool], bool]] = {
    "AND": lambda a, b: a and b, "OR": lambda a, b: a or b, "XOR": lambda a, b: a != b,
}  # fmt: skip

_MULTIPLY_ADD = frozenset(("IMAD", "UIMAD"))
_LOW_HALF = frozenset(((), ("MOV",), ("MOV", "U32"), ("SHL",), ("SHL", "U32"), ("IADD",), ("U32",)))
_ADD = frozenset(("IADD3", "UIADD3", "VIADD", "IADD"))
_LOAD = frozenset(("LDC", "ULDC", "LDCU"))
_COMPUTED = frozenset((
    *_MULTIPLY_ADD, *_ADD, *_LOAD, "HFMA2", "ISETP", "LEA", "LOP3", "MOV", "PLOP3", "S2R", "S2UR", "SHF", "UISETP",
    "ULEA", "ULOP3", "UMOV", "UPLOP3", "USHF",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class PreparedInstruction:
    """An instruction with what its every visit asks for.

    Attributes:
        one: the instruction.
        changes: registers, predicates and barriers that it may change; None for any.
        conditions: predicates among its operands.
        is_computed: whether its result may be known.
    """

    one: Instruction
    changes: frozenset[str] | None
    conditions: tuple[str, ...]
    is_computed: bool


def prepare_instruction(one: Instruction) -> PreparedInstruction:
    """An instruction, ready to be visited."""
    conditions = tuple(one.conditions)
    is_computed = one.name in _COMPUTED and bool(one.operands) and bool(_DESTINATION.fullmatch(one.operands[0]))
    return PreparedInstruction(one, list_changes(one), conditions, is_computed)


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
        if one.name in ("ISETP", "UISETP"):
            return self._compare(one, before)
        if one.name in ("PLOP3", "UPLOP3"):
            return _combine_predicates(one, before)
        value: Value | None
        if one.name in ("S2R", "S2UR"):
            value = self.blocks.get(one.operands[1].removeprefix("SR_CTAID."))
        elif one.name in ("LOP3", "ULOP3"):
            value = self._combine_bits(one, before)
        elif one.name == "HFMA2":
            value = _pack_halves(one)
        else:
            values = [self._value(operand, before) for operand in one.operands[1:]]
            value = _each(lambda *known: _calculate(one, known), values)
        return {} if value is None else {one.operands[0]: value}

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

    def _combine_bits(self, one: Instruction, before: Known) -> Value | None:
        """Of three words, by a table of what comes of each three bits."""
        if len(one.operands) != 6 or one.suffixes != ("LUT",):
            return None
        return _each(_look_up_bits, [self._value(operand, before) for operand in one.operands[1:5]])

    def _compare(self, one: Instruction, before: Known) -> Known:
        compare, *rest = one.suffixes or ("",)
        is_unsigned = rest[:1] == ["U32"]
        combine = rest[1:] if is_unsigned else rest
        if compare not in _COMPARE or len(combine) != 1 or combine[0] not in _COMBINE or len(one.operands) != 5:
            return {}
        other = find_predicate(before, one.operands[4])
        if combine == ["AND"] and other is False:
            return {one.operands[0]: 0}
        if other is None or one.operands[1] not in ("PT", "UPT"):
            return {}

        def decide(first: int, second: int) -> int:
            if not is_unsigned:
                first, second = (value - _WORD if value >= _SIGN else value for value in (first, second))
            return int(_COMBINE[combine[0]](_COMPARE[compare](first, second), other))

        found = _each(decide, [self._value(operand, before) for operand in one.operands[2:4]])
        return {} if found is None else {one.operands[0]: found}

    def _value(self, operand: str, before: Known) -> Value | None:
        """Of an operand of one word, None where it is not known."""
        if "c[" in operand:
            place = find_place(operand, before) if _CONSTANT.fullmatch(operand) else None
            return None if place is None else _read(self.find_narrow, place, 0, _NARROW_BYTES)
        found = _match_plain(operand)
        if found is None or found[2]:
            return None
        value = _find_register(before, found[3]) if "R" in found[3] else int(found[3], 0)
        return _each(lambda word: -word, [value]) if found[1] else value


def _read(find: FindByte, place: Value, offset: int, size: int, *, is_signed: bool = False) -> Value | None:
    """A number in constant bank 0, None where it is not known."""

    def read(first: int) -> int | None:
        read = [find(first + offset + byte) for byte in range(size)]
        known = bytes(byte for byte in read if byte is not None)
        return int.from_bytes(known, "little", signed=is_signed) if len(known) == size else None

    return _each(read, [place])


@lru_cache(maxsize=2**14)
def _match_plain(operand: str) -> re.Match[str] | None:
    return _PLAIN.fullmatch(operand)


def _calculate(one: Instruction, known: Sequence[int]) -> int | None:
    """The first 32 bits of a result count; None for what is not one of a few plain instructions."""
    if one.name in ("MOV", "UMOV") and len(known) == 1 and not one.suffixes:
        return known[0]
    if one.name in _ADD and len(known) in (2, 3) and not one.suffixes:
        return sum(known)
    if len(known) != 3:
        return None
    first, second, third = known
    if one.name in _MULTIPLY_ADD and one.suffixes in _LOW_HALF:
        return first * second + third
    if one.name in ("LEA", "ULEA") and not one.suffixes and third < 32:
        return (first << third) + second
    is_shift = one.name in ("SHF", "USHF") and one.suffixes == ("L", "U32") and second < 32 and not third
    return first << second if is_shift else None


def _pack_halves(one: Instruction) -> int | None:
    """How compilers load a number: 0 times 0, plus two halves. With another suffix they are no IEEE halves."""
    if one.operands[1:3] != ("-RZ", "RZ") or len(one.operands) != 5 or one.suffixes not in ((), ("MMA",)):
        return None
    try:
        high, low = (struct.unpack("<H", struct.pack("<e", float(half)))[0] for half in one.operands[3:])
    except (ValueError, OverflowError):
        return None
    return int(high << 16 | low)


def _look_up_bits(first: int, second: int, third: int, table: int) -> int:
    found = 0
    for bits in range(8):
        if table >> bits & 1:
            of_first, of_second = first if bits & 4 else ~first, second if bits & 2 else ~second
            found |= of_first & of_second & (third if bits & 1 else ~third)
    return found


def _combine_predicates(one: Instruction, before: Known) -> Known:
    """Of three predicates, by a table as above: one that is not known may not matter."""
    if len(one.operands) != 7 or one.suffixes != ("LUT",):
        return {}
    inputs = [find_predicate(before, name) for name in one.operands[2:5]]
    table = int(one.operands[5], 0)
    rows = product(*([False, True] if value is None else [value] for value in inputs))
    found = {table >> (4 * first + 2 * second + third) & 1 for first, second, third in rows}
    return {one.operands[0]: found.pop()} if len(found) == 1 else {}


def _each(compute: Callable[..., int | None], values: Sequence[Value | None]) -> Value | None:
    """What a function of words makes of these, for each block; None where one word is not known."""
    if any(value is None for value in values):
        return None
    blocks = max((len(value) for value in values if isinstance(value, tuple)), default=1)
    columns = [value if isinstance(value, tuple) else (value,) * blocks for value in values]
    found = [compute(*row) for row in zip(*columns, strict=True)]
    known = tuple(word % _WORD for word in found if word is not None)
    if len(known) < len(found):
        return None
    return known[0] if len(set(known)) == 1 else known


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
    return _each(lambda base: base + literal, [_find_register(known, found[1])]) if found[1] else literal
