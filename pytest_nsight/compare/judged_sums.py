"""The verdicts on sums over whole traces: kernel time, copy time, operator time. Pure.

A sum over other numbers of launches may come from other numbers of steps, or from a lost fusion. Where ranges have
intervals, these are the better evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_nsight.compare.change_limits import Floors, is_above, settle
from pytest_nsight.compare.change_sentences import explain_uncertain_sum, explain_unjudged_sum
from pytest_nsight.compare.changes import Change
from pytest_nsight.compare.range_changes import RangeChange
from pytest_nsight.model.verdicts import VerdictKind

TOTALS = ("kernel time", "copy time", "operator time")
KERNELS, _COPIES, OPERATORS = TOTALS


@dataclass(frozen=True, slots=True)
class Sums:
    """What the verdicts on all sums depend on.

    Attributes:
        launches: how many launches each sum adds up, before and after.
        noun: what these are: "launch" or "operator".
        lacks_kernels: whether launches left no kernel in each trace.
        steps: the repeated range with the most device time, which is the step if there is one; None if no range
            occurs in both traces, and more than once in one.
        steps_verdict: on that range, None where it has none.
        has_like_steps: whether both traces hold `steps` equally often, or it has less than half of the device time.
        is_repeated: whether ranges have an interval, or would have one if no kernels were missing.
        limits: what a change has to exceed.
    """

    launches: tuple[Mapping[str, int], Mapping[str, int]]
    noun: str
    lacks_kernels: tuple[bool, bool]
    steps: RangeChange | None
    steps_verdict: VerdictKind | None
    has_like_steps: bool
    is_repeated: bool
    limits: Floors

    def count(self, row: Change) -> tuple[int, int]:
        """How many launches a sum adds up, before and after."""
        before, after = (counts.get(row.name, 0) for counts in self.launches)
        return before, after

    def judge(self, row: Change) -> tuple[VerdictKind | None, str]:
        """The verdict on a sum, None where it is not judged; and a note on why it is not, or is uncertain."""
        if self.is_repeated and row.name == _COPIES:
            return None, ""
        if any(self.lacks_kernels) and row.name == KERNELS:
            return VerdictKind.INCONCLUSIVE, ""
        launches, steps = self.count(row), self.steps
        is_comparable = launches[0] == launches[1] or (self.has_like_steps and not self.is_repeated)
        if steps is not None and not is_comparable:
            return None, explain_unjudged_sum(row.name, launches, self.noun, steps)
        if not row.before and not row.after:
            return None, ""
        verdict = _judge_sum(row, launches, self.limits)
        if steps is not None and self._is_left_to(steps, row, verdict):
            return VerdictKind.INCONCLUSIVE, explain_uncertain_sum(row, steps)
        return verdict, ""

    def _is_left_to(self, steps: RangeChange, row: Change, verdict: VerdictKind) -> bool:
        """Whether a sum has changed for the most part inside the steps, whose interval settles nothing."""
        if verdict not in (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT):
            return False
        if steps.row.low is None or self.steps_verdict is not VerdictKind.INCONCLUSIVE:
            return False
        change_ns = (row.after or 0) - (row.before or 0)
        inside_ns = (steps.row.after or 0) * steps.count[1] - (steps.row.before or 0) * steps.count[0]
        return abs(change_ns - inside_ns) < abs(change_ns) / 2


def _judge_sum(row: Change, launches: tuple[int, int], limits: Floors) -> VerdictKind:
    old, new = launches
    if is_above(row, limits.band, limits.tick_ns * old):
        return VerdictKind.REGRESSION
    if is_above(row.exchanged(), limits.band, limits.tick_ns * new):
        return VerdictKind.IMPROVEMENT
    return settle(row, limits.band, limits.tick_ns * max(old, new))
