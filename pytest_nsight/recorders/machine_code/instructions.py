"""Instructions of a kernel as nvdisasm prints them: guard, name, operands, what they may change, where they go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

INSTRUCTION_BYTES = 16
"""Of every architecture from Volta on."""

_TEXT = re.compile(r"(?:@(!?U?P(?:\d+|T))\s+)?([A-Z][\w.]*)\s*([^;]*);")
_TARGET = re.compile(r"(-?0x[0-9a-f]+)\s*$")
_REGISTER = re.compile(r"\b(U?R)(\d+)\b")
_PREDICATE = re.compile(r"\b(U?P\d+)\b")
_CONSTANT = re.compile(r"\bcx?\[")

_BARRIER = re.compile(r"B\d+")
_CONDITION = re.compile(r"!?U?P(?:\d+|T)")

_JUMPS = ("BRA", "BSSY", "CALL", "LEPC", "RET", "WARPSYNC")
"""Instructions that name an address of the same kernel; a return, what its register is relative to."""

_UNCONDITIONAL = ("BSSY", "BSYNC", "CALL", "RET")
"""Instructions that may depend on a predicate among their operands, which is not followed."""

_BEYOND = frozenset(("ACQSHMINIT", "BRX", "BRXU", "JMP", "JMX", "JMXU", "KILL", "RPCMOV", "RTT"))
"""Control flow that is not followed."""


_NO_DESTINATION = frozenset((
    "BAR", "BPT", "BREAK", "BSSY", "BSYNC", "CCTL", "DEPBAR", "DSETP", "ERRBAR", "FCHK", "FSETP", "HSETP2", "ISETP",
    "LDGDEPBAR", "LDGSTS", "MEMBAR", "NANOSLEEP", "NOP", "PLOP3", "RED", "REDG", "ST", "STG", "STL", "STS",
    "UISETP", "UPLOP3", "WARPSYNC", "YIELD",
))  # fmt: skip
"""Instructions that change predicates at the most."""

_ONE_DESTINATION = frozenset((
    "BMOV", "BMSK", "BREV", "F2F", "F2FP", "F2I", "FADD", "FFMA", "FLO", "FMNMX", "FMUL", "FRND", "FSEL", "FSET",
    "FSWZADD", "HADD2", "HFMA2", "HMNMX2", "HMUL2", "HSET2", "I2F", "I2FP", "IABS", "IADD", "IADD3", "IMAD",
    "IMNMX", "LD", "LDC", "LDCU", "LDG", "LDL", "LDS", "LEA", "LOP3", "MATCH", "MOV", "MUFU", "P2R", "POPC",
    "PRMT", "R2UR", "REDUX", "S2R", "S2UR", "SEL", "SGXT", "SHF", "SHFL", "UBMSK", "UFLO", "UIADD3", "UIMAD",
    "ULDC", "ULEA", "ULOP3", "UMOV", "UPOPC", "UPRMT", "USEL", "USGXT", "USHF", "VABSDIFF", "VIADD", "VIADDMNMX",
    "VIMNMX", "VOTE", "VOTEU",
))  # fmt: skip
"""Instructions that change the first register that they name, and as many behind it as their suffix says."""

_PAIR_DESTINATION = frozenset(("ATOM", "ATOMG", "ATOMS", "CS2R", "DADD", "DFMA", "DMUL", "LEPC"))
"""Those that may change the one behind it, too, whatever the suffix. Others may change any register."""

_HALF_DESTINATION = ("SHF", "USHF")
"""Instructions whose suffix gives the width of the operand: they change one half of it."""

_RESULT_REGISTERS = 16
"""The first registers: what a function may have changed and its caller may read is the result, in one of them."""

_PREDICATES = 7
"""Predicate registers that can be changed, of each of the two kinds."""

_BARRIERS = 16
"""Registers at the most that say where threads go on together."""

_SUFFIX_REGISTERS = {"64": 2, "F64": 2, "U64": 2, "S64": 2, "WIDE": 2, "128": 4}
_CHANGED_BY_DRIVER = frozenset((
    *(f"R{number}" for number in range(_RESULT_REGISTERS)),
    *(f"{kind}{number}" for number in range(_PREDICATES) for kind in ("P", "UP")),
))  # fmt: skip
"""By a call of the driver's code. It may change others, too, but none that the caller reads without setting it."""

_SEVERAL_DESTINATIONS = ("256", "ENL2")
"""Suffixes of loads that name two groups of registers."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        text: as nvdisasm prints it.
        guard: predicate that it depends on, such as "!P0"; "" for none.
        name: without suffixes.
        suffixes: behind the name.
        operands: in order, destinations first.
        target: address of the same kernel that it names, None if it names none.
    """

    text: str
    guard: str
    name: str
    suffixes: tuple[str, ...]
    operands: tuple[str, ...]
    target: int | None = None

    @property
    def conditions(self) -> list[str]:
        """Operands that are a predicate, such as "!P0"."""
        return [operand for operand in self.operands if _CONDITION.fullmatch(operand)]

    @property
    def registers(self) -> list[tuple[str, int]]:
        """Register file ("R" or "UR") and number of each register that it names."""
        return [(file, int(number)) for file, number in _REGISTER.findall(self.text)]

    @property
    def predicates(self) -> list[str]:
        """Each predicate register that it names."""
        return _PREDICATE.findall(self.text)

    @property
    def constants(self) -> int:
        """How many operands lie in a constant bank."""
        return len(_CONSTANT.findall(self.text))


def parse(text: str, moved: int) -> Instruction | None:
    """An instruction; None where the text is of another form.

    Args:
        text: as nvdisasm prints it.
        moved: bytes from the place that nvdisasm found it at to its place in the kernel: targets are relative.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    name, *suffixes = found[2].split(".")
    operands = tuple(one.strip() for one in found[3].split(",")) if found[3].strip() else ()
    target = None
    if name in _JUMPS and (at := _TARGET.search(found[3])):
        target = (int(at[1], 16) + moved) % 2**64
    return Instruction(text, found[1] or "", name, tuple(suffixes), operands, target)


class ControlFlow:
    """Where a kernel goes from each of its instructions. Where it may, it counts as if it did.

    Attributes:
        is_known: whether all jumps are understood.
        joins: places of the instructions that threads may go on from together.
    """

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._instructions = instructions
        joins = [self.find_target(at) for at, one in enumerate(instructions) if one.name == "BSSY"]
        self.joins = [place for place in joins if place is not None]
        self._has_functions = any(is_call_inside(one) for one in instructions)
        self.is_known = all(self._is_understood(at) for at in range(len(instructions)))

    def follow(self, at: int, *, may_jump: bool, must_jump: bool) -> list[int]:
        """Places of the instructions that may come next; functions of the kernel and joins apart.

        Args:
            at: place of the instruction.
            may_jump: whether its guard, and its condition if it jumps, may be true.
            must_jump: whether they cannot be false.
        """
        one = self._instructions[at]
        behind = [at + 1] if at + 1 < len(self._instructions) and not must_jump else []
        place = self.find_target(at) if one.name in ("BRA", "WARPSYNC") and may_jump else None
        return behind if place is None else [*behind, place]

    def find_target(self, at: int) -> int | None:
        """Place of the instruction whose address an instruction names; None where it names none of the kernel's."""
        address = self._instructions[at].target
        if address is None or address % INSTRUCTION_BYTES or address >= len(self._instructions) * INSTRUCTION_BYTES:
            return None
        return address // INSTRUCTION_BYTES

    def _is_understood(self, at: int) -> bool:
        one, place = self._instructions[at], self.find_target(at)
        if one.name in _BEYOND or (one.name in _UNCONDITIONAL and one.conditions):
            return False
        if one.name == "RET":
            # Else the register is relative to something else than the kernel's first instruction.
            return self._has_functions and "REL" in one.suffixes and one.target == 0
        if one.name in ("BSSY", "BSYNC") and not (one.operands and _BARRIER.fullmatch(one.operands[0])):
            return False
        if one.name == "LEPC":
            # The address that a call of the driver's code returns to.
            return place is not None and self._instructions[place - 1].name == "CALL"
        if is_call_inside(one):
            return place is not None and not one.registers and at + 1 < len(self._instructions)
        return one.name not in ("BRA", "BSSY") or place is not None


def is_call_inside(one: Instruction) -> bool:
    """A call of code of the same kernel; other calls are of the driver's, which return."""
    return one.name == "CALL" and "REL" in one.suffixes


def list_changes(one: Instruction) -> frozenset[str] | None:
    """Registers, predicates and barriers that an instruction may change; None for any."""
    if one.name == "CALL" and not is_call_inside(one):
        return _CHANGED_BY_DRIVER
    changed = set(one.predicates)
    if one.name == "BMOV":
        changed.update(f"B{number}" for number in range(_BARRIERS))
    if one.name == "BSSY":
        changed.update(operand for operand in one.operands if _BARRIER.fullmatch(operand))
    if not set(_SEVERAL_DESTINATIONS).isdisjoint(one.suffixes):
        return None
    if one.name not in _NO_DESTINATION:
        if one.name not in _ONE_DESTINATION and one.name not in _PAIR_DESTINATION:
            return None
        count = max((_SUFFIX_REGISTERS.get(suffix, 1) for suffix in one.suffixes), default=1)
        count = 1 if one.name in _HALF_DESTINATION else count
        count = max(count, 2 if one.name in _PAIR_DESTINATION else 1)
        for file, number in one.registers[:1]:
            changed.update(f"{file}{number + place}" for place in range(count))
    return frozenset(changed)
