"""What instructions make of words and predicates that are known, for each block where they depend on its number."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Union

from pytest_nsight.recorders.machine_code.instructions import Instruction

Value = Union[int, "tuple[int, ...]"]
"""A word of 32 bits; several where it depends on the number of the block, one for each."""
Known = dict[str, "int | tuple[int, ...]"]
"""Register, predicate or barrier -> its value, where it is known. It is never changed in place."""

FindWord = Callable[[str], "Value | None"]
"""From an operand to the word that it is, None where it is not known."""
FindFlag = Callable[[str], "bool | None"]
"""Likewise, from a predicate such as "!P0"."""

WORD = 2**32
_SIGN = 2**31

_PREDICATE = re.compile(r"U?P(?:\d+|T)")
_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b, "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
}  # fmt: skip
_COMBINE: Mapping[str, Callable[[bool, bool], bool]] = {
    "AND": lambda a, b: a and b, "OR": lambda a, b: a or b, "XOR": lambda a, b: a != b,
}  # fmt: skip

_MULTIPLY_ADD = frozenset(("IMAD", "UIMAD"))
_ADD3 = frozenset(("IADD3", "UIADD3"))
_EXTREMES = frozenset(("IMNMX", "VIMNMX"))
_ADD = frozenset(("VIADD", "IADD"))
_LOW_HALF = frozenset(((), ("MOV",), ("MOV", "U32"), ("SHL",), ("SHL", "U32"), ("IADD",), ("U32",)))
_COMPARISONS = frozenset(("ISETP", "UISETP"))
_OF_BITS = frozenset(("LOP3", "ULOP3"))
_OF_PREDICATES = frozenset(("PLOP3", "UPLOP3"))
_PACK = "HFMA2"

COMPUTED = frozenset((
    *_MULTIPLY_ADD, *_ADD, *_ADD3, *_EXTREMES, *_COMPARISONS, *_OF_BITS, *_OF_PREDICATES, _PACK, "LEA",
    "MOV", "SHF", "ULEA", "UMOV", "USHF",
))  # fmt: skip
"""Instructions whose result may be known."""


def compute(one: Instruction, find_word: FindWord, find_flag: FindFlag) -> Known:
    """The registers and predicates that an instruction sets to what is known.

    Args:
        one: of COMPUTED.
        find_word: what is known of its operands.
        find_flag: what is known of predicates.
    """
    if one.name in _COMPARISONS:
        return _compare(one, find_word, find_flag)
    if one.name in _OF_PREDICATES:
        return _combine_predicates(one, find_flag)
    if one.name in _ADD3 or (one.name == "IMAD" and one.suffixes == ("X",)):
        return _add(one, find_word, find_flag)
    value: Value | None
    if one.name in _OF_BITS:
        value = _combine_bits(one, find_word)
    elif one.name in _EXTREMES:
        value = _take_extreme(one, find_word, find_flag)
    elif one.name == _PACK:
        value = _pack_halves(one)
    else:
        value = each(lambda *known: _calculate(one, known), [find_word(operand) for operand in one.operands[1:]])
    return {} if value is None else {one.operands[0]: value}


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


def _add(one: Instruction, find_word: FindWord, find_flag: FindFlag) -> Known:
    """A sum, with the carry of the lower half of a longer number, or the carry for its upper half."""
    target, *rest = one.operands
    # Two words carry once; from Blackwell on the second carry is named all the same.
    carries = [operand for operand in rest[:2] if _PREDICATE.fullmatch(operand)]
    words, inputs = rest[len(carries) : len(carries) + 3], rest[len(carries) + 3 :]
    if len(words) != 3 or one.suffixes != (("X",) if inputs else ()):
        return {}
    carried = [find_flag(name) for name in inputs]
    if None in carried:
        return {}
    is_product = one.name == "IMAD"
    values = [find_word(word.replace("~", "")) for word in words]
    complements = [word.startswith("~") for word in words]

    def total_of(*known: int) -> int:
        pairs = zip(known, complements, strict=True)
        first, second, third = (~word % WORD if is_complement else word for word, is_complement in pairs)
        return (first * second if is_product else first + second) + third + sum(map(bool, carried))

    negative = [word.startswith("-") for word in words]

    def carry_of(*known: int) -> int:
        # A difference carries where it borrows nothing; of zero the negative word is zero, too.
        is_of_zero = any(is_negative and not word for word, is_negative in zip(known, negative, strict=True))
        return int(is_of_zero or total_of(*known) >= WORD)

    results = {target: each(total_of, values)}
    if carries and words[2].endswith("RZ") and sum(negative) < 2 and not is_product:
        results[carries[0]] = each(carry_of, values)
    return {name: value for name, value in results.items() if value is not None}


def _compare(one: Instruction, find_word: FindWord, find_flag: FindFlag) -> Known:
    """Of two words, combined with a predicate."""
    relation, *rest = one.suffixes or ("",)
    is_unsigned = rest[:1] == ["U32"]
    combine = rest[1:] if is_unsigned else rest
    # The upper half of a longer number decides, and the lower one, compared before, where it is equal.
    is_upper = combine[1:] == ["EX"]
    if relation not in _COMPARE or not combine or combine[0] not in _COMBINE:
        return {}
    if len(combine) != 1 + is_upper or len(one.operands) != 5 + is_upper:
        return {}
    other = find_flag(one.operands[4])
    if combine[0] == "AND" and other is False:
        return {one.operands[0]: 0}
    lower = find_flag(one.operands[5]) if is_upper else None
    if other is None or one.operands[1] not in ("PT", "UPT") or (is_upper and lower is None):
        return {}

    def decide(first: int, second: int) -> int:
        if not is_unsigned:
            first, second = _as_signed(first), _as_signed(second)
        holds = bool(lower) if is_upper and first == second else _COMPARE[relation](first, second)
        return int(_COMBINE[combine[0]](holds, other))

    found = each(decide, [find_word(operand) for operand in one.operands[2:4]])
    return {} if found is None else {one.operands[0]: found}


def _take_extreme(one: Instruction, find_word: FindWord, find_flag: FindFlag) -> Value | None:
    """The lesser of two words, or the greater where the predicate is false."""
    # From Blackwell on two more predicates, always PT here, stand behind the first operand.
    words = [operand for operand in one.operands[1:-1] if operand != "PT"]
    is_lesser = find_flag(one.operands[-1]) if _PREDICATE.fullmatch(one.operands[-1].lstrip("!")) else None
    if len(words) != 2 or is_lesser is None or one.suffixes not in ((), ("U32",)):
        return None
    key = _as_signed if not one.suffixes else int

    def pick(first: int, second: int) -> int:
        return min(first, second, key=key) if is_lesser else max(first, second, key=key)

    return each(pick, [find_word(operand) for operand in words])


def _combine_bits(one: Instruction, find_word: FindWord) -> Value | None:
    """Bits of three words combined by a truth table of three bits (LOP3)."""
    if len(one.operands) != 6 or one.suffixes != ("LUT",):
        return None
    return each(_look_up_bits, [find_word(operand) for operand in one.operands[1:5]])


def _combine_predicates(one: Instruction, find_flag: FindFlag) -> Known:
    """Of three predicates, by a table as above: one that is not known may not matter."""
    if len(one.operands) != 7 or one.suffixes != ("LUT",):
        return {}
    inputs = [find_flag(name) for name in one.operands[2:5]]
    table = int(one.operands[5], 0)
    rows = product(*([False, True] if value is None else [value] for value in inputs))
    found = {table >> (4 * first + 2 * second + third) & 1 for first, second, third in rows}
    return {one.operands[0]: found.pop()} if len(found) == 1 else {}


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


def _as_signed(word: int) -> int:
    return word - WORD if word >= _SIGN else word


def each(compute: Callable[..., int | None], values: Sequence[Value | None]) -> Value | None:
    """What a function of words makes of these, for each block; None where one word is not known."""
    if any(value is None for value in values):
        return None
    blocks = max((len(value) for value in values if isinstance(value, tuple)), default=1)
    columns = [value if isinstance(value, tuple) else (value,) * blocks for value in values]
    found = [compute(*row) for row in zip(*columns, strict=True)]
    known = tuple(word % WORD for word in found if word is not None)
    if len(known) < len(found):
        return None
    return known[0] if len(set(known)) == 1 else known
