"""Instructions of a kernel as nvdisasm prints them: guard, name, operands, where the next one may be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nsight.collectors.cupti.machine_code import INSTRUCTION_BYTES

_TEXT = re.compile(r"(?:@(!?U?P(?:\d+|T))\s+)?([A-Z][\w.]*)\s*([^;]*);")
_TARGET = re.compile(r"(0x[0-9a-f]+)\s*$")
_REGISTER = re.compile(r"\b(U?R)(\d+)\b")
_PREDICATE = re.compile(r"\b(U?P\d+)\b")
_CONSTANT = re.compile(r"\bcx?\[")

_JUMPS = ("BRA", "BSSY", "CALL", "LEPC", "WARPSYNC")
"""Instructions that name an address of the same kernel."""

_BEYOND = frozenset(("ACQSHMINIT", "BRX", "BRXU", "JMP", "JMX", "JMXU", "KILL", "RPCMOV", "RTT"))
"""Control flow that is not followed."""


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
    """

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._instructions = instructions
        joins = [self._place(one.target) for one in instructions if one.name == "BSSY" and one.target is not None]
        self._joins = [place for place in joins if place is not None]
        calls = [at for at, one in enumerate(instructions) if _is_call_inside(one)]
        self._returns = [at + 1 for at in calls if at + 1 < len(instructions)]
        self.is_known = all(self._is_understood(one) for one in instructions) and all(
            self._names_return(at + 1) for at in calls
        )

    def follow(self, at: int, *, may_jump: bool, must_jump: bool) -> list[int]:
        """Places of the instructions that may come next.

        Args:
            at: place of the instruction.
            may_jump: whether its guard, and its condition if it jumps, may be true.
            must_jump: whether they cannot be false.
        """
        one = self._instructions[at]
        behind = [at + 1] if at + 1 < len(self._instructions) else []
        if one.name == "EXIT":
            return [] if must_jump else behind
        if one.name == "RET":
            return (self._returns if may_jump else []) + ([] if must_jump else behind)
        if one.name == "BRA":
            place = self._place(one.target)
            jumped = [place] if may_jump and place is not None else []
            return jumped + ([] if must_jump else behind)
        if one.name == "BSYNC":
            return behind + self._joins
        if one.name in ("CALL", "WARPSYNC") and (place := self._place(one.target)) is not None:
            return [*behind, place]
        return behind

    def _place(self, address: int | None) -> int | None:
        if address is None or address % INSTRUCTION_BYTES or address >= len(self._instructions) * INSTRUCTION_BYTES:
            return None
        return address // INSTRUCTION_BYTES

    def _is_understood(self, one: Instruction) -> bool:
        if one.name in _BEYOND or (one.name == "RET" and not self._returns):
            return False
        if one.name == "LEPC":
            # The address that a call of the driver's code returns to.
            place = self._place(one.target)
            return place is not None and self._instructions[place - 1].name == "CALL"
        if one.name in ("BRA", "BSSY") or _is_call_inside(one):
            return self._place(one.target) is not None
        return True

    def _names_return(self, place: int) -> bool:
        """Whether the code has the address behind a call as a number: it is where the called code returns to."""
        address = f"{place * INSTRUCTION_BYTES:#x}"
        return any(address in one.operands and one.target is None for one in self._instructions)


def _is_call_inside(one: Instruction) -> bool:
    """A call of code of the same kernel; other calls are of the driver's, which return."""
    return one.name == "CALL" and "REL" in one.suffixes
