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

from pytest_nsight.recorders.machine_code.instructions import (
    INSTRUCTION_BYTES,
    ControlFlow,
    Instruction,
    is_call_inside,
)
from pytest_nsight.recorders.machine_code.machine_code import ADDRESS_BYTES
from pytest_nsight.recorders.machine_code.register_values import (
    Arithmetic,
    FindByte,
    PreparedInstruction,
    find_place,
    find_predicate,
    prepare_instruction,
)
from pytest_nsight.recorders.machine_code.word_arithmetic import Known

ReadBytes = Callable[[Instruction, int], range]
"""From an instruction and the offset that its constant operand names to the bytes that it reads."""

_BANK_BYTES = 2**16
_MOST_BLOCKS = 1024
"""Blocks along an axis of a grid whose numbers are distinguished, where a place depends on them."""

_MOST_CALLS = 4
"""Functions of a kernel that are open at once; one that calls itself would be followed without end."""

_MOST_VISITS = 32
"""Of an instruction: a register that changes in a loop is unknown after two."""

_MOST_ITERATIONS = 64
"""Of loops that are unrolled, counted along a way: over dimensions there are at most 25."""


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


_Place = tuple[tuple[int, ...], int, int]
"""Where the functions that it is in return to, outermost first, iterations before it, and an instruction."""


@dataclass(slots=True)
class _Walk:
    """One way through a program; what it has read so far.

    Attributes:
        program: the code.
        arithmetic: computes with what is known of the launch.
        most_iterations: how many certain jumps back are distinguished: so loops are unrolled whose jump back is
            certain, and what they count is known in each iteration.
        reads: offsets in constant bank 0.
        narrow: those that some instruction reads as a number, too small for an address.
        is_lost: whether it may read anywhere.
    """

    program: Program
    arithmetic: Arithmetic
    most_iterations: int = 0
    reads: set[int] = field(default_factory=set)
    narrow: set[int] = field(default_factory=set)
    is_lost: bool = False

    def run(self) -> None:
        """Follows all ways until nothing new is known."""
        states: dict[_Place, Known] = {((), 0, 0): {}}
        visits: dict[_Place, int] = {}
        waiting: list[_Place] = [((), 0, 0)]
        while waiting and not self.is_lost:
            place = waiting.pop()
            visits[place] = visits.get(place, 0) + 1
            before = states[place] if visits[place] <= _MOST_VISITS else _keep_barriers(states[place])
            after, ways = self._step(place, before)
            for way in ways:
                known = states.get(way)
                if known == after:
                    continue
                joined = after if known is None else _join(known, after)
                if known is None or len(joined) < len(known):
                    states[way] = joined
                    waiting.append(way)

    def _step(self, place: _Place, before: Known) -> tuple[Known, list[_Place]]:
        returns, iterations, at = place
        flow = self.program.flow
        prepared = self.program.prepare(at)
        one = prepared.one
        if prepared.is_plain:
            # Most are, so nothing else is asked of them.
            self._read(prepared, before)
            after = self.arithmetic.follow(prepared, before, is_certain=True)
            return after, [(returns, iterations, at + 1)] if at + 1 < len(self.program.instructions) else []
        names = prepared.conditions if one.name in ("BRA", "EXIT") else ()
        conditions = [find_predicate(before, name) for name in names]
        conditions += [find_predicate(before, one.guard)] if one.guard else []
        may_run = not any(value is False for value in conditions)
        must_run = all(value is True for value in conditions)
        after, elsewhere = before, list[_Place]()
        if may_run and is_call_inside(one):
            elsewhere = self._call(place)
        elif may_run and one.name == "RET":
            elsewhere = self._return(place, before)
        elif may_run and one.name not in ("BRA", "EXIT"):
            self._read(prepared, before)
            after = self.arithmetic.follow(prepared, before, is_certain=must_run)
            if one.name == "BSSY" and must_run and (target := flow.find_target(at)) is not None:
                after = {**after, one.operands[0]: target}
            elif one.name == "BSYNC":
                elsewhere = [(returns, iterations, join) for join in self._find_joins(one, before)]
        leaves = one.name in ("EXIT", "RET") or is_call_inside(one) or (one.name == "BRA" and _is_plain_branch(one))
        ways = flow.follow(at, may_jump=may_run, must_jump=must_run and leaves)
        back = min(iterations + 1, self.most_iterations) if must_run and leaves else iterations
        return after, [*elsewhere, *((returns, back if way <= at else iterations, way) for way in ways)]

    def _call(self, place: _Place) -> list[_Place]:
        """The function of the kernel that is called: each call is followed by itself."""
        returns, iterations, at = place
        target = self.program.flow.find_target(at)
        self.is_lost = self.is_lost or target is None or len(returns) >= _MOST_CALLS
        return [] if target is None or self.is_lost else [((*returns, at + 1), iterations, target)]

    def _return(self, place: _Place, before: Known) -> list[_Place]:
        """Behind the call, if that is where the function returns to: callers leave the address in a register."""
        returns, iterations, at = place
        one = self.program.instructions[at]
        address = before.get("".join(map(str, one.registers[0]))) if one.registers else None
        if not returns or address != returns[-1] * INSTRUCTION_BYTES:
            self.is_lost = True
            return []
        return [(returns[:-1], iterations, returns[-1])]

    def _find_joins(self, one: Instruction, before: Known) -> list[int]:
        """Where threads that have waited for each other go on: what BSSY has set, else any such place."""
        place = before.get(one.operands[0]) if one.operands else None
        return [place] if isinstance(place, int) else self.program.flow.joins

    def _read(self, prepared: PreparedInstruction, before: Known) -> None:
        if not prepared.reads_constants:
            return
        one = prepared.one
        for operand in one.operands:
            if "c[" not in operand:
                continue
            place = find_place(operand, before)
            places = {place} if isinstance(place, int) else set(place or ())
            if "c[0x0]" in operand and (not places or max(places) >= _BANK_BYTES):
                self.is_lost = True
                return
            for one_place in places:
                found = self.program.read_bytes(one, one_place)
                self.reads.update(found)
                if len(found) < ADDRESS_BYTES:
                    self.narrow.update(found)


@dataclass(frozen=True, slots=True)
class Reached:
    """What a launch reads.

    Attributes:
        reads: offsets in constant bank 0.
        narrow: those that some instruction reads as a number, too small for an address.
    """

    reads: frozenset[int]
    narrow: frozenset[int]


def find_reached(
    program: Program,
    find_byte: FindByte,
    grid: tuple[int, int, int],
    find_narrow: FindByte | None = None,
    *,
    unrolls: bool = True,
) -> Reached | None:
    """What a launch reads; None if an address is computed from an unknown value.

    Args:
        program: the code.
        find_byte: what is known of the bank.
        grid: blocks of the launch.
        find_narrow: what is known of it where it is read as a number, too small for an address; None for the same.
        unrolls: whether loops are unrolled where nothing else helps, which takes ten times as long.
    """
    if not program.flow.is_known:
        return None
    for most_iterations in (0, _MOST_ITERATIONS) if unrolls else (0,):
        for blocks in _list_blocks(grid):
            walk = _Walk(program, Arithmetic(find_byte, blocks, find_narrow or find_byte), most_iterations)
            walk.run()
            if not walk.is_lost:
                return Reached(frozenset(walk.reads), frozenset(walk.narrow))
    return None


def _list_blocks(grid: tuple[int, int, int]) -> Iterator[dict[str, tuple[int, ...]]]:
    """What is said of the blocks: nothing, then their numbers along one axis."""
    yield {}
    for axis, extent in zip("XYZ", grid, strict=True):
        if 1 <= extent <= _MOST_BLOCKS:
            yield {axis: tuple(range(extent))}


def _join(first: Known, second: Known) -> Known:
    return {name: value for name, value in first.items() if second.get(name) == value}


def _keep_barriers(known: Known) -> Known:
    return {name: value for name, value in known.items() if name.startswith("B")}


def _is_plain_branch(one: Instruction) -> bool:
    return set(one.suffixes) <= {"U"}
