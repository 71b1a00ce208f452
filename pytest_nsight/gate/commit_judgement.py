"""Whether a commit is good or bad: by its launches if GOOD's and BAD's differ, otherwise by time. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_nsight.judge.structure import StructureFinding, compare_structure, count_launches
from pytest_nsight.judge.wording import write_diff, write_shapes, write_spreads
from pytest_nsight.model.bisection import Judgement
from pytest_nsight.model.comparison import Comparison
from pytest_nsight.model.kernel_names import family
from pytest_nsight.model.units import count, interval, percent
from pytest_nsight.model.values import RunSummary
from pytest_nsight.model.verdicts import Verdict, VerdictKind


@dataclass(frozen=True, slots=True)
class LaunchDifference:
    """How what two commits launch compares.

    Attributes:
        finding: what differs, as the gate finds it.
        before: launches of a round of the first commit.
        now: of the second one.
    """

    finding: StructureFinding
    before: int
    now: int

    @property
    def varies(self) -> bool:
        """Whether the launches of one of the commits vary, so that a single process cannot judge them."""
        return self.finding.is_varying or self.finding.was_varying

    @property
    def differs(self) -> bool:
        """Whether the two commits launch different work, while neither one's launches vary."""
        return bool(self.finding.changes) and not self.finding.retuned

    @property
    def needs_another_look(self) -> bool:
        """Whether an autotuner may have chosen anew: only another process shows whether the commits differ."""
        return self.finding.is_retiled

    @property
    def text(self) -> str:
        """What differs, in words; "" if nothing does."""
        write = write_shapes if self.finding.is_retiled else write_diff
        return write(self.finding.changes) if self.differs else ""

    def __str__(self) -> str:
        """What the second commit launches, where the first one is GOOD."""
        if self.varies:
            return f"its launches vary: {write_spreads(self.finding.varying)}"
        launches = count(self.now, "launch")
        if self.finding.retuned:
            return f"{launches}, as in GOOD, in configurations that an autotuner chose anew"
        return f"{launches}: {self.text}" if self.differs else f"{launches}, as in GOOD"


def compare_launches(before: Sequence[RunSummary], now: Sequence[RunSummary]) -> LaunchDifference:
    """How the launches of one commit compare with those of another.

    Args:
        before: runs of the one, at least one.
        now: runs of the other, at least one.
    """
    finding = compare_structure(before, now, family)
    return LaunchDifference(finding, count_launches(before[-1]), count_launches(now[-1]))


def judge_launches(difference: LaunchDifference) -> Judgement:
    """The judgement on a commit by its launches: it is bad if they differ from GOOD's."""
    if difference.varies:
        return Judgement.SKIPPED
    return Judgement.BAD if difference.differs else Judgement.GOOD


def judge_time(verdict: Verdict, of_bad: Comparison) -> Judgement | None:
    """The judgement on a commit by its time, compared with GOOD's; None while more runs may decide.

    The gate's own verdict decides if there is one. Otherwise the interval decides if it lies on one side of the
    middle between GOOD and BAD, on a logarithmic scale: the middle is far from both, whatever the noise. Times that
    the machine disturbed decide nothing.

    Args:
        verdict: the gate's, on the commit against GOOD.
        of_bad: BAD compared with GOOD.
    """
    worse, better = VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT
    if of_bad.ratio < 1:
        worse, better = better, worse
    if verdict.kind is worse:
        return Judgement.BAD
    if verdict.kind in (better, VerdictKind.UNCHANGED):
        return Judgement.GOOD
    found = verdict.comparison
    if found is None or verdict.kind is VerdictKind.ENVIRONMENT:
        return None
    half_way = math.sqrt(of_bad.ratio)
    if found.low <= half_way <= found.high:
        return None
    return Judgement.BAD if (found.ratio > half_way) == (of_bad.ratio > 1) else Judgement.GOOD


def describe_time(comparison: Comparison) -> str:
    """A comparison of times in a few words."""
    change = percent(comparison.ratio - 1, error=comparison.half_width)
    return f"{change} ({interval(comparison.low - 1, comparison.high - 1)}) against GOOD"
