"""Which bytes of its arguments one launch of a kernel reads: those that its code reaches with these arguments.

A struct may have room for more than a launch uses: torch passes sizes and strides of up to 25 dimensions, sets
those that there are, and the kernel stops at their number. What lies behind differs from launch to launch, and no
launch reads it. The code says so: jumps depend on numbers in the arguments. So registers are followed as far as
they come of such numbers (conditional constant propagation, Wegman and Zadeck, 1991), and code behind a jump that
is certain not to be taken is left out. What is not understood makes a register unknown, and both ways are followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from pytest_nsight.collectors.cupti.instructions import ControlFlow, Instruction
from pytest_nsight.collectors.cupti.register_values import (
    Arithmetic,
    FindByte,
    Known,
    PreparedInstruction,
    find_place,
    find_predicate,
    prepare_instruction,
)

ReadBytes = Callable[[Instruction, int], range]
"""From an instruction and the offset that its constant operand names to the bytes that it reads."""

_BANK_BYTES = 2**16
_MOST_BLOCKS = 1024
"""Blocks along an axis of a grid whose numbers are distinguished, where a place depends on them."""

_MOST_VISITS = 32
"""Of an instruction: a register that changes in a loop is unknown after two."""


@dataclass(frozen=True, slots=True)
class Program:
    """The code of a kernel, ready to be followed.

    Attributes:
        instructions: in order.
        flow: where it goes.
        read_bytes: what an instruction with a constant operand reads.
    """

    instructions: Sequence[Instruction]
    flow: ControlFlow
    read_bytes: ReadBytes
    _prepared: dict[int, PreparedInstruction] = field(default_factory=dict)

    def prepare(self, at: int) -> PreparedInstruction:
        """The instruction at this place: most are never reached."""
        if at not in self._prepared:
            self._prepared[at] = prepare_instruction(self.instructions[at])
        return self._prepared[at]


@dataclass(slots=True)
class _Walk:
    """One way through a program; what it has read so far."""

    program: Program
    arithmetic: Arithmetic
    reads: set[int] = field(default_factory=set)
    is_lost: bool = False

    def run(self) -> None:
        """Follows all ways until nothing new is known."""
        states: dict[int, Known] = {0: {}}
        visits: dict[int, int] = {}
        waiting = [0]
        while waiting and not self.is_lost:
            at = waiting.pop()
            visits[at] = visits.get(at, 0) + 1
            before = states[at] if visits[at] <= _MOST_VISITS else {}
            after, ways = self._step(at, before)
            for way in ways:
                known = states.get(way)
                if known == after:
                    continue
                joined = after if known is None else _join(known, after)
                if known is None or len(joined) < len(known):
                    states[way] = joined
                    waiting.append(way)

    def _step(self, at: int, before: Known) -> tuple[Known, list[int]]:
        prepared = self.program.prepare(at)
        one = prepared.one
        guard = find_predicate(before, one.guard) if one.guard else True
        if one.name in ("BRA", "EXIT"):
            conditions = [guard, *(find_predicate(before, name) for name in prepared.conditions)]
            may_jump = not any(value is False for value in conditions)
            must_jump = all(value is True for value in conditions) and (one.name == "EXIT" or _is_plain_branch(one))
            return before, self.program.flow.follow(at, may_jump=may_jump, must_jump=must_jump)
        if guard is False:
            return before, self.program.flow.follow(at, may_jump=False, must_jump=False)
        self._read(one, before)
        after = self.arithmetic.follow(prepared, before, is_certain=guard is True)
        must_jump = one.name == "RET" and guard is True
        return after, self.program.flow.follow(at, may_jump=True, must_jump=must_jump)

    def _read(self, one: Instruction, before: Known) -> None:
        if not one.constants:
            return
        for operand in one.operands:
            if "c[" not in operand:
                continue
            place = find_place(operand, before)
            places = {place} if isinstance(place, int) else set(place or ())
            if "c[0x0]" in operand and (not places or max(places) >= _BANK_BYTES):
                self.is_lost = True
                return
            for one_place in places:
                self.reads.update(self.program.read_bytes(one, one_place))


def find_reached(program: Program, find_byte: FindByte, grid: tuple[int, int, int]) -> frozenset[int] | None:
    """Offsets in constant bank 0 of what a launch reads; None where a place in it is computed of what is not known.

    Args:
        program: the code.
        find_byte: what is known of the bank.
        grid: blocks of the launch.
    """
    if not program.flow.is_known:
        return None
    for blocks in _list_blocks(grid):
        walk = _Walk(program, Arithmetic(find_byte, blocks))
        walk.run()
        if not walk.is_lost:
            return frozenset(walk.reads)
    return None


def _list_blocks(grid: tuple[int, int, int]) -> Iterator[dict[str, tuple[int, ...]]]:
    """What is said of the blocks: nothing, then their numbers along one axis."""
    yield {}
    for axis, extent in zip("XYZ", grid, strict=True):
        if 1 <= extent <= _MOST_BLOCKS:
            yield {axis: tuple(range(extent))}


def _join(first: Known, second: Known) -> Known:
    return {name: value for name, value in first.items() if second.get(name) == value}


def _is_plain_branch(one: Instruction) -> bool:
    return set(one.suffixes) <= {"U"}
