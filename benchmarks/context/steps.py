"""The steps of the experiment: which cases are measured, how often, in how many minutes at most. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SUITE = "benchmarks/context/suite/test_context.py"
ALONE = ("add", "triton", "matmul")
NO_PROLOGUE = ""
REMEDIES = ("round", "kernels,allocator,spin")


@dataclass(frozen=True, slots=True)
class Step:
    """One pool to fill.

    Attributes:
        context: what surrounds the tiny cases: "whole", "tiny" or "alone".
        prologue: value of CONTEXT_PROLOGUE.
        number: tells steps of one context apart.
        selection: pytest's arguments that select the cases.
        runs: fresh processes.
        seconds: what it takes on an H100, as estimated.
    """

    context: str
    prologue: str
    number: int
    selection: tuple[str, ...]
    runs: int
    seconds: float

    @property
    def name(self) -> str:
        """Unique among the steps, and fit for a file's name."""
        prologue = self.prologue.replace(",", "+") or "none"
        return f"{self.context}.{prologue}.{self.number}"


def plan_block(prologue: str, first: int, runs: int, alone_runs: int) -> Iterator[Step]:
    """One block: the whole suite, the tiny cases only, and some of these alone.

    Args:
        prologue: value of CONTEXT_PROLOGUE.
        first: number of the first step.
        runs: of the whole suite, and of the tiny cases.
        alone_runs: of each case that is measured alone.
    """
    yield Step("whole", prologue, first, (SUITE,), runs, 8 + 10 * runs)
    yield Step("tiny", prologue, first + 1, (SUITE, "-k", "test_tiny"), runs, 8 + 5 * runs)
    for offset, case in enumerate(ALONE):
        selected = (f"{SUITE}::test_tiny[{case}]",)
        yield Step("alone", prologue, first + 2 + offset, selected, alone_runs, 8 + 3 * alone_runs)


def plan_steps(*, quick: bool) -> list[Step]:
    """All steps in order; where time runs out, the last ones are missing.

    Args:
        quick: one run of everything, to try the scripts.
    """
    if quick:
        return [*plan_block(NO_PROLOGUE, 0, 1, 1), *plan_block(REMEDIES[0], 10, 1, 1)]
    steps = list(plan_block(NO_PROLOGUE, 0, 5, 3))
    for index, prologue in enumerate(REMEDIES):
        steps += plan_block(prologue, 10 * (index + 1), 3, 2)
    return steps + list(plan_block(NO_PROLOGUE, 30, 5, 3))


def share_minutes(steps: list[Step], minutes_left: float) -> float:
    """The minutes that the first of these steps may take, when all are to end in the minutes left."""
    return minutes_left * steps[0].seconds / sum(step.seconds for step in steps)
