"""Which hardware counters of a kernel moved between two trees or two times, causes before their effects. Pure.

docs/decisions/0026 says what is compared with what, and why these limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_nsight.model.kernel_counters import Counter, KernelCounters
from pytest_nsight.model.units import amount, number

_POINTS = 5.0
"""Percentage points by which a rate or a share must differ."""
_RATIO = 1.1
"""Factor by which a number must differ."""
_FEWEST_BYTES = 4096.0
"""Least bytes of local memory that count; fewer are the frame of a function call."""


@dataclass(frozen=True, slots=True)
class CounterMove:
    """One counter that differs.

    Attributes:
        counter: which one.
        before: its value there.
        now: its value here.
    """

    counter: Counter
    before: float
    now: float

    @property
    def text(self) -> str:
        """The move in words: "spilled registers and local arrays 0 B -> 12.6 MB"."""
        label, write = _LABELS[self.counter]
        return f"{label} {write(self.before)} -> {write(self.now)}"


def _percent(value: float) -> str:
    return f"{value:.0f} %"


def _size(value: float) -> str:
    return amount(value, "B") if value else "0 B"


_LABELS: dict[Counter, tuple[str, Callable[[float], str]]] = {
    Counter.LOCAL_BYTES: ("spilled registers and local arrays", _size),
    Counter.SECTORS_PER_REQUEST: ("sectors per memory request", number),
    Counter.OCCUPANCY: ("achieved occupancy", _percent),
    Counter.REGISTERS: ("registers", number),
    Counter.SHARED_BYTES: ("shared memory of a block", _size),
    Counter.DRAM_BYTES: ("DRAM traffic", _size),
    Counter.L2_HIT_RATE: ("L2 hit rate", _percent),
    Counter.MEMORY_THROUGHPUT: ("memory throughput", _percent),
    Counter.SM_THROUGHPUT: ("SM throughput", _percent),
}
"""Counters in the order in which they are named: first causes in the source, then their effects."""

_SHARES = {Counter.OCCUPANCY, Counter.L2_HIT_RATE, Counter.MEMORY_THROUGHPUT, Counter.SM_THROUGHPUT}


def find_moves(before: KernelCounters, now: KernelCounters) -> tuple[CounterMove, ...]:
    """The counters that differ by more than they do between two profiles of the same code.

    Args:
        before: of the baseline, the other tree or the partner.
        now: of the slower kernel.

    Returns:
        Causes before effects.
    """
    found = []
    for counter in _LABELS:
        old, new = before.get(counter), now.get(counter)
        if old is not None and new is not None and _differs(counter, old, new):
            found.append(CounterMove(counter, old, new))
    return tuple(found)


def describe_moves(before: KernelCounters, now: KernelCounters, against: str) -> str:
    """What moved, in one clause for the sentence of a verdict.

    Args:
        before: what is compared with.
        now: of the slower kernel.
        against: where `before` is from, in words.
    """
    moves = find_moves(before, now)
    moved = ", ".join(move.text for move in moves) or "no counter moved"
    return f"Nsight Compute on {now.kernel}, against {against}: {moved}"


def describe_counters(now: KernelCounters) -> str:
    """The counters alone, if there is nothing to compare them with."""
    values = [(label, write, now.get(counter)) for counter, (label, write) in _LABELS.items()]
    listed = ", ".join(f"{label} {write(value)}" for label, write, value in values if value is not None)
    return f"Nsight Compute on {now.kernel}: {listed}"


def _differs(counter: Counter, old: float, new: float) -> bool:
    if counter in _SHARES:
        return abs(new - old) >= _POINTS
    if counter is Counter.LOCAL_BYTES and max(old, new) < _FEWEST_BYTES:
        return False
    if counter is Counter.REGISTERS:
        return old != new
    low, high = sorted((old, new))
    return high > low * _RATIO
