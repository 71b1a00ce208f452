"""What an instruction makes of registers that are known: arithmetic of 32 bits, for a few plain instructions.

Whatever is not among them makes the registers unknown that it may change.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pytest_nsight.collectors.cupti.instructions import Instruction

Known = dict[str, int]
"""Register or predicate -> its value, where it is known."""

FindByte = Callable[[int], "int | None"]
"""From an offset in constant bank 0 to the byte there, None where it is not known."""

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

_NO_DESTINATION = frozenset((
    "BAR", "BPT", "BREAK", "BSSY", "BSYNC", "DEPBAR", "DSETP", "ERRBAR", "FCHK", "FSETP", "HSETP2", "ISETP",
    "MEMBAR", "NANOSLEEP", "NOP", "PLOP3", "RED", "ST", "STG", "STL", "STS", "UISETP", "UPLOP3", "WARPSYNC",
    "YIELD",
))  # fmt: skip
"""Instructions that change predicates at the most."""

_ONE_DESTINATION = frozenset((
    "BMOV", "BMSK", "F2FP", "FADD", "FFMA", "FLO", "FMNMX", "FMUL", "FSEL", "FSET", "FSWZADD", "HADD2", "HFMA2",
    "HMNMX2", "HMUL2", "HSET2", "I2FP", "IABS", "IADD", "IADD3", "IMAD", "IMNMX", "LD", "LDC", "LDCU", "LDG", "LDL",
    "LDS", "LEA", "LOP3", "MATCH", "MOV", "MUFU", "P2R", "POPC", "PRMT", "R2UR", "REDUX", "S2R", "S2UR", "SEL",
    "SGXT", "SHF", "SHFL", "UBMSK", "UFLO", "UIADD3", "UIMAD", "ULDC", "ULEA", "ULOP3", "UMOV", "UPOPC", "UPRMT",
    "USEL", "USGXT", "USHF", "VABSDIFF", "VIADD", "VIADDMNMX", "VIMNMX", "VOTE", "VOTEU",
))  # fmt: skip
"""Instructions that change the first register that they name, and as many behind it as their suffix says."""

_PAIR_DESTINATION = frozenset(
    ("ATOM", "ATOMG", "ATOMS", "CS2R", "DADD", "DFMA", "DMUL", "F2F", "F2I", "I2F", "LEPC")
)
"""Those that may change the one behind it, too, whatever the suffix. Others may change any register."""

_SUFFIX_REGISTERS = {"64": 2, "F64": 2, "U64": 2, "S64": 2, "WIDE": 2, "128": 4, "256": 8}


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Computes with what is known of a launch.

    Attributes:
        find_byte: what is known of constant bank 0.
        block: axis -> number of the block along it, where it is known.
    """

    find_byte: FindByte
    block: Mapping[str, int]

    def step(self, one: Instruction, before: Known, *, is_certain: bool) -> Known:
        """What is known after an instruction.

        Args:
            one: the instruction.
            before: what is known before it.
            is_certain: whether it runs; if not, it may.
        """
        after = _forget(one, before)
        if is_certain:
            after.update(self._compute(one, before))
        return after

    def _compute(self, one: Instruction, before: Known) -> Known:
        """The registers that an instruction sets to what is known."""
        if not one.operands or not _DESTINATION.fullmatch(one.operands[0]):
            return {}
        if one.name in _LOAD:
            return self._load(one, before)
        if one.name in ("ISETP", "UISETP"):
            return self._compare(one, before)
        if one.name in ("S2R", "S2UR"):
            value = self.block.get(one.operands[1].removeprefix("SR_CTAID."))
        elif one.name in ("LOP3", "ULOP3"):
            value = self._combine_bits(one, before)
        elif one.name == "HFMA2" and one.operands[1:3] == ("-RZ", "RZ") and len(one.operands) == 5:
            # How compilers load a number: 0 times 0, plus two halves.
            value = _pack_halves(one.operands[3:])
        else:
            values = [self._value(operand, before) for operand in one.operands[1:]]
            known = [value for value in values if value is not None]
            value = _calculate(one, known) if len(known) == len(values) else None
        return {} if value is None else {one.operands[0]: value % _WORD}

    def _load(self, one: Instruction, before: Known) -> Known:
        widths = [_LOAD_BYTES[suffix] for suffix in one.suffixes if suffix in _LOAD_BYTES]
        if len(widths) != len(one.suffixes) or len(one.operands) != 2:
            return {}
        place = find_place(one.operands[1], before)
        if place is None:
            return {}
        size = widths[0] if widths else 4
        file, number = re.fullmatch(r"(U?R)(\d+)", one.operands[0]).groups()  # type: ignore[union-attr]
        found: Known = {}
        for word in range(max(size // 4, 1)):
            read = [self.find_byte(place + 4 * word + byte) for byte in range(min(size, 4))]
            known = [byte for byte in read if byte is not None]
            if len(known) == len(read):
                is_signed = one.suffixes[:1] in (("S8",), ("S16",))
                value = int.from_bytes(bytes(known), "little", signed=is_signed) % _WORD
                found[f"{file}{int(number) + word}"] = value
        return found

    def _combine_bits(self, one: Instruction, before: Known) -> int | None:
        """Of three words, by a table of what comes of each three bits."""
        if len(one.operands) != 6 or one.suffixes != ("LUT",):
            return None
        first, second, third, table = (self._value(operand, before) for operand in one.operands[1:5])
        if first is None or second is None or third is None or table is None:
            return None
        found = 0
        for bits in range(8):
            if table >> bits & 1:
                of_first, of_second = first if bits & 4 else ~first, second if bits & 2 else ~second
                found |= of_first & of_second & (third if bits & 1 else ~third)
        return found

    def _compare(self, one: Instruction, before: Known) -> Known:
        compare, *rest = one.suffixes or ("",)
        is_unsigned = rest[:1] == ["U32"]
        combine = rest[1:] if is_unsigned else rest
        if compare not in _COMPARE or len(combine) != 1 or combine[0] not in _COMBINE or len(one.operands) != 5:
            return {}
        first, second = (self._value(operand, before) for operand in one.operands[2:4])
        other = find_predicate(before, one.operands[4])
        if combine == ["AND"] and other is False:
            return {one.operands[0]: 0}
        if first is None or second is None or other is None or one.operands[1] not in ("PT", "UPT"):
            return {}
        if not is_unsigned:
            first, second = (value - _WORD if value >= _SIGN else value for value in (first, second))
        return {one.operands[0]: int(_COMBINE[combine[0]](_COMPARE[compare](first, second), other))}

    def _value(self, operand: str, before: Known) -> int | None:
        """Of an operand of one word, None where it is not known."""
        if "c[" in operand:
            place = find_place(operand, before) if _CONSTANT.fullmatch(operand) else None
            read = [self.find_byte(place + byte) for byte in range(4)] if place is not None else [None]
            known = [byte for byte in read if byte is not None]
            return int.from_bytes(bytes(known), "little") if len(known) == len(read) else None
        found = _match_plain(operand)
        if found is None:
            return None
        value = _find_register(before, found[3]) if "R" in found[3] else int(found[3], 0)
        if value is None or found[2]:
            return None
        return (-value if found[1] else value) % _WORD


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


def _pack_halves(halves: Sequence[str]) -> int | None:
    try:
        high, low = (struct.unpack("<H", struct.pack("<e", float(one)))[0] for one in halves)
    except (ValueError, OverflowError):
        return None
    return int(high << 16 | low)


def _find_register(known: Known, name: str) -> int | None:
    return 0 if name.endswith("Z") else known.get(name)


def find_predicate(known: Known, name: str) -> bool | None:
    """The value of a predicate, such as "!P0"; None where it is not known."""
    plain = name.removeprefix("!")
    value = True if plain.endswith("PT") else known.get(plain)
    return None if value is None else bool(value) != name.startswith("!")


@lru_cache(maxsize=2**14)
def _search_constant(operand: str) -> re.Match[str] | None:
    return _CONSTANT.search(operand)


def find_place(operand: str, known: Known) -> int | None:
    """The offset that an operand in constant bank 0 names."""
    found = _search_constant(operand)
    if found is None:
        return None
    base = _find_register(known, found[1]) if found[1] else 0
    return None if base is None else (base + int(found[2] or "0", 16)) % _WORD


def _forget(one: Instruction, before: Known) -> Known:
    """What is known after an instruction whose result is not."""
    changed = set(one.predicates)
    if one.name not in _NO_DESTINATION:
        if one.name not in _ONE_DESTINATION and one.name not in _PAIR_DESTINATION:
            return {}
        count = max((_SUFFIX_REGISTERS.get(suffix, 1) for suffix in one.suffixes), default=1)
        count = max(count, 2 if one.name in _PAIR_DESTINATION else 1)
        for file, number in one.registers[:1]:
            changed.update(f"{file}{number + place}" for place in range(count))
    return {name: value for name, value in before.items() if name not in changed}
